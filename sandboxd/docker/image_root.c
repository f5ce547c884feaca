/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/docker/image_root.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "common/log.h"
#include "common/signals.h"
#include "common/unconst.h"
#include "sandboxd/backend/root_lock.h"
#include "sandboxd/docker/docker.h"
#include "sandboxd/docker/engine.h"
#include "sandboxd/docker/image_parts.h"
#include "sandboxd/runtimes/table.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/prctl.h>
#include <sys/wait.h>

#define TAR "/usr/bin/tar"
#define REPOSITORY "crisol-root"
#define IMPORT_MS 600000
#define PROBE_MS 10000
#define ANSWER_MAX (1U << 20)

/* Nothing is run in it: it need not have a shell. */
static const char dockerfile[] = "ARG BASE\n"
                                 "FROM ${BASE}\n"
                                 "USER 0:0\n"
                                 "COPY sandbox-init /sbin/\n"
                                 "COPY passwd group /etc/\n"
                                 "ENV LANG=C.UTF-8\n"
                                 "USER 1000:1000\n"
                                 "WORKDIR /workspace\n"
                                 "ENTRYPOINT [\"/sbin/sandbox-init\", \"--stream\"]\n";

/* ---- the tree as a stream ---- */

_Noreturn static void pack(int folder_fd, int out_fd)
{
    static const char *const argv[] = {TAR, "--create", "--numeric-owner", "--file=-", ".", NULL};
    static const char *const environment[] = {NULL};

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (cr_signals_reset() < 0 || fchdir(folder_fd) < 0 || dup2(out_fd, STDOUT_FILENO) < 0)
        _exit(127);
    (void)execve(TAR, cr_unconst(argv), cr_unconst(environment));
    _exit(127);
}

/* *ret_fd is the reading end. Returns the pid or -errno. */
static pid_t start_packing(int folder_fd, int *ret_fd, struct cr_err *err)
{
    int ends[2];
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return cr_err_sys(err, errno, "open a pipe");
    pid = fork();
    if (pid == 0)
        pack(folder_fd, ends[1]);
    (void)close(ends[1]);
    if (pid < 0) {
        (void)close(ends[0]);
        return cr_err_sys(err, errno, "fork");
    }
    *ret_fd = ends[0];
    return pid;
}

static int end_packing(pid_t pid, struct cr_err *err)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0
               ? 0
               : cr_err_set(err, EIO, TAR " cannot pack it");
}

/* ---- importing ---- */

static int remove_tag(struct sbx_engine *engine, const char *name)
{
    char path[SBX_IMAGE_NAME_MAX + 32];
    const struct sbx_engine_request request = {
        .method = "DELETE", .path = path, .deadline_ms = SBX_IMAGE_LOOK_MS};
    long status = 0;

    (void)snprintf(path, sizeof(path), "/images/%s", name);
    return sbx_engine_ask(engine, &request, NULL, &status, NULL);
}

static int send_tree(struct sbx_engine *engine, const char *name, const char *digest, int fd,
                     struct cr_err *err)
{
    CR_AUTO_BUF struct cr_buf answer;
    char path[512];
    const struct sbx_engine_request request = {.method = "POST",
                                               .path = path,
                                               .content_type = "application/x-tar",
                                               .is_streamed = true,
                                               .body_fd = fd,
                                               .deadline_ms = IMPORT_MS};
    long status = 0;
    int r;

    cr_buf_init(&answer, ANSWER_MAX);
    (void)snprintf(path, sizeof(path),
                   "/images/create?fromSrc=-&repo=" REPOSITORY "&tag=%s"
                   "&changes=LABEL%%20" SBX_IMAGE_LABEL_ROOT "%%3D%s",
                   strchr(name, ':') + 1, digest);
    r = sbx_engine_ask(engine, &request, &answer, &status, err);
    return r < 0 ? r : sbx_image_judge("the docker engine does not take it", &answer, status, err);
}

/* What was not sent in whole has no name. */
static int import(struct sbx_engine *engine, const struct sbx_image_root *root, const char *name,
                  struct cr_err *err)
{
    CR_AUTO_CLOSE int folder_fd = sbx_root_lock(root->folder, err);
    struct cr_err end = CR_ERR_INIT;
    pid_t pid;
    int packed;
    int fd = -1;
    int r;

    if (folder_fd < 0)
        return folder_fd;
    pid = start_packing(folder_fd, &fd, err);
    if (pid < 0)
        return pid;
    cr_log_info("handing a root file system to the docker engine image=%s", name);
    r = send_tree(engine, name, root->digest, fd, err);
    (void)close(fd); /* who is not read to the end ends of it */
    packed = end_packing(pid, &end);
    if (r == 0 && packed < 0) {
        (void)remove_tag(engine, name);
        return cr_err_set(err, EIO, "%s", end.text);
    }
    return r;
}

static int ensure_base(struct sbx_engine *engine, const struct sbx_image_root *root,
                       const char *name, struct cr_err *err)
{
    char init[SBX_IMAGE_DIGEST_SIZE];
    int r = sbx_image_look(engine, name, init, err);

    return r == -ENOENT ? import(engine, root, name, err) : r;
}

static int ensure(struct sbx_engine *engine, const struct sbx_image_root *root,
                  const struct sbx_image_inputs *inputs, char ret_image[SBX_IMAGE_NAME_MAX],
                  struct cr_err *err)
{
    char init[SBX_IMAGE_DIGEST_SIZE];
    int r;

    sbx_image_inputs_name(inputs, ret_image);
    r = sbx_image_look(engine, ret_image, init, err);
    if (r != -ENOENT)
        return r;
    r = ensure_base(engine, root, inputs->base, err);
    return r < 0 ? r : sbx_image_build(engine, inputs, false, err);
}

int sbx_image_root_ensure(struct sbx_engine *engine, const struct sbx_image_root *root,
                          char ret_image[SBX_IMAGE_NAME_MAX], struct cr_err *err)
{
    struct sbx_image_inputs inputs;
    char base[SBX_IMAGE_NAME_MAX];
    int r;

    (void)snprintf(base, sizeof(base), REPOSITORY ":%s", root->digest);
    r = sbx_image_inputs_load(root->init_path, base, dockerfile, &inputs, err);
    if (r == 0)
        r = ensure(engine, root, &inputs, ret_image, err);
    sbx_image_inputs_done(&inputs);
    return r;
}

/* ---- looking inside ---- */

static int make_container(struct sbx_engine *engine, const char *image, const char *instance,
                          char ret_id[SBX_CONTAINER_ID_SIZE], struct cr_err *err)
{
    CR_AUTO_BUF struct cr_buf answer;
    char body[SBX_IMAGE_NAME_MAX + 256];
    struct sbx_engine_request request = {
        .method = "POST", .path = "/containers/create", .body = body, .deadline_ms = PROBE_MS};
    char text[256];
    long status = 0;
    int r;

    cr_buf_init(&answer, ANSWER_MAX);
    (void)snprintf(body, sizeof(body),
                   "{\"Image\":\"%s\",\"NetworkDisabled\":true,\"Labels\":{\"" SBX_CONTAINER_LABEL
                   "\":\"%s\"}}",
                   image, instance);
    request.body_size = strlen(body);
    r = sbx_engine_ask(engine, &request, &answer, &status, err);
    if (r < 0)
        return r;
    if (status == 201 && sbx_container_id(cr_buf_str(&answer), ret_id) == 0)
        return 0;
    sbx_engine_message(cr_buf_str(&answer), text, sizeof(text));
    return cr_err_set(err, EIO, "look into image '%s': %s", image, text);
}

/* Returns 1, 0 or -errno. A link at the end of the path is enough. */
static int has_file(struct sbx_engine *engine, const char *id, const char *file, struct cr_err *err)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
    char path[1024];
    const struct sbx_engine_request request = {
        .method = "HEAD", .path = path, .deadline_ms = PROBE_MS};
    size_t used = (size_t)snprintf(path, sizeof(path), "/containers/%s/archive?path=", id);
    long status = 0;
    int r;

    for (const char *at = file; *at && used + 4 < sizeof(path); at++)
        used += (size_t)snprintf(path + used, sizeof(path) - used,
                                 strchr(plain, *at) ? "%c" : "%%%02X", (unsigned char)*at);
    r = sbx_engine_ask(engine, &request, NULL, &status, err);
    return r < 0 ? r : status == 200;
}

/* 1 when everything is there that the runtime names, 0, or -errno. */
static int has_runtime(struct sbx_engine *engine, const char *id, const struct sbx_runtime *runtime,
                       struct cr_err *err)
{
    int r = has_file(engine, id, runtime->version_path, err);

    for (size_t i = 0; r == 1 && runtime->needs[i]; i++)
        r = has_file(engine, id, runtime->needs[i], err);
    return r;
}

static int look_inside(struct sbx_engine *engine, const char *id, uint32_t wanted,
                       uint32_t *ret_found, struct cr_err *err)
{
    size_t count;
    const struct sbx_runtime *runtimes = sbx_runtimes(&count);
    uint32_t found = 0;

    for (size_t i = 0; i < count; i++) {
        int r = (wanted & UINT32_C(1) << i) ? has_runtime(engine, id, &runtimes[i], err) : 0;

        if (r < 0)
            return r;
        found |= (uint32_t)r << i;
    }
    *ret_found = found;
    return 0;
}

int sbx_image_find_runtimes(struct sbx_engine *engine, const char *image, const char *instance,
                            uint32_t wanted, uint32_t *ret_found, struct cr_err *err)
{
    char id[SBX_CONTAINER_ID_SIZE];
    int removed;
    int r = make_container(engine, image, instance, id, err);

    if (r < 0)
        return r;
    r = look_inside(engine, id, wanted, ret_found, err);
    removed = sbx_docker_remove(engine, id, r < 0 ? NULL : err);
    return r < 0 || removed > 0 ? r : removed;
}
