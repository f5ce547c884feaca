/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/beside.h"
#include "common/err.h"
#include "common/log.h"
#include "common/notify.h"
#include "common/unconst.h"
#include "sandboxd/supervisor/check.h"
#include "sandboxd/supervisor/child.h"
#include "sandboxd/supervisor/settings.h"
#include "sandboxd/supervisor/supervisor.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#define GC_DEADLINE_MS 600000

/*
 * Whoever starts the service may have secrets in the environment. They are of
 * no use here, so they must not be found in /proc/PID/environ either, which
 * shows the bytes below `environ` and not what the library holds.
 */
static void wipe_environment(void)
{
    static char *none[] = {NULL};

    for (char **line = environ; line && *line; line++)
        explicit_bzero(*line, strlen(*line));
    environ = none;
}

static int run(const struct sbx_settings *settings, const struct cr_notify *notify,
               struct cr_err *err)
{
    if (geteuid() != 0)
        return cr_err_set(err, EPERM,
                          "sandboxd must be started as root, because it makes namespaces, control "
                          "groups and users for the sandboxes; start it with sudo. Callers need no "
                          "root: --socket-owner=UID names who may call");
    return sbx_supervisor_run(settings, notify, err);
}

/* These speak gRPC, which this process must not even be linked against. */
static int become(const char *program, char **argv, struct cr_err *err)
{
    char path[PATH_MAX];
    int r = cr_beside_find(program, path, err);

    if (r < 0)
        return r;
    argv[0] = path;
    (void)execve(path, argv, environ);
    return cr_err_sys(err, errno, "execute '%s'", path);
}

/* A build fetches packages: through the proxy, and from the index, of whoever starts it. */
static int become_builder(char **argv, struct cr_err *err)
{
    static const char *const kept[] = {"http_proxy",    "https_proxy",        "no_proxy",
                                       "HTTP_PROXY",    "HTTPS_PROXY",        "NO_PROXY",
                                       "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"};
    static char path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
    static char locale[] = "LC_ALL=C.UTF-8";
    static char home[] = "HOME=/root";
    static char epoch[] = "SOURCE_DATE_EPOCH=0"; /* what is made does not depend on when */
    static char *environment[CR_ARRAY_SIZE(kept) + 5] = {path, locale, home, epoch};
    size_t count = 4;

    for (char **line = environ; line && *line; line++) {
        for (size_t i = 0; i < CR_ARRAY_SIZE(kept); i++) {
            if (strncmp(*line, kept[i], strlen(kept[i])) == 0 && (*line)[strlen(kept[i])] == '=' &&
                count < CR_ARRAY_SIZE(environment) - 1)
                environment[count++] = *line;
        }
    }
    environ = environment;
    return become("sandboxd-build", argv, err);
}

/* `sandboxd gc`: removes what a docker engine keeps of earlier services of ours. */
static int collect_garbage(const struct sbx_settings *settings, struct cr_err *err)
{
    struct sbx_child_args args = {0};
    int r = sbx_settings_docker_gc_args(settings, &args);

    r = r < 0 ? cr_err_set(err, ENOMEM, "out of memory for the arguments of sandboxd-docker")
              : sbx_child_run("sandboxd-docker", cr_unconst(args.list), true, GC_DEADLINE_MS, err);
    sbx_child_args_done(&args);
    return r > 0 ? cr_err_set(err, EIO, "not everything was removed; the lines above say why") : r;
}

/* The first word, when it is a command; taken out of the arguments. */
static const char *take_command(int *argc, char **argv)
{
    const char *command = *argc > 1 && argv[1][0] != '-' ? argv[1] : NULL;

    if (!command)
        return NULL;
    (*argc)--;
    for (int i = 1; i <= *argc; i++)
        argv[i] = argv[i + 1];
    return command;
}

static int serve(const struct sbx_settings *settings, const struct cr_notify *notify,
                 struct cr_err *err)
{
    sbx_settings_log(settings);
    return run(settings, notify, err);
}

int main(int argc, char **argv)
{
    struct sbx_settings settings = {0};
    struct cr_notify notify = CR_NOTIFY_INIT;
    struct cr_err err = CR_ERR_INIT;
    const char *command = take_command(&argc, argv);
    bool is_check = command && strcmp(command, "check") == 0;
    bool is_gc = command && strcmp(command, "gc") == 0;
    int r;

    cr_log_setup("sandboxd", CR_LOG_INFO, CR_LOG_TEXT);
    if (command && strcmp(command, "selftest") == 0) {
        wipe_environment();
        r = become("sandboxd-selftest", argv, &err);
    } else if (command && strcmp(command, "runtime") == 0) {
        r = become_builder(argv, &err);
    } else if (command && !is_check && !is_gc)
        r = cr_err_set(&err, EINVAL,
                       "'%s' is no command: check, selftest, runtime or gc; none serves", command);
    else
        r = sbx_settings_load(argc, argv, &settings, &err);
    if (r == 0 && !is_check && !is_gc)
        r = cr_notify_open(&notify, &err); /* it is named in the environment */
    wipe_environment();
    (void)umask(077);
    if (r == 0 && is_gc)
        r = collect_garbage(&settings, &err);
    else if (r == 0)
        r = is_check ? sbx_check_run(&settings, &err) : serve(&settings, &notify, &err);
    if (r < 0)
        cr_log_error("%s", err.text);
    cr_notify_close(&notify);
    sbx_settings_done(&settings);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
