/* SPDX-License-Identifier: Apache-2.0 */

/*
 * `sandboxd runtime …`: builds root file systems of runtimes, tests and
 * registers them. Started by sandboxd, in its place; talks to nobody but the
 * tools that it starts, and to a sandboxd of its own for the smoke test.
 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/config.h"
#include "common/err.h"
#include "common/log.h"
#include "common/patience.h"
#include "sandboxd/builder/build.h"
#include "sandboxd/builder/room.h"
#include "sandboxd/builder/smoke.h"
#include "sandboxd/builder/state.h"
#include "sandboxd/builder/tool.h"
#include "sandboxd/builder/tree.h"
#include "sandboxd/runtimes/bundle.h"
#include "sandboxd/supervisor/registered.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#define LOG_FILE "log"
#define LOG_TAIL 4096

struct settings {
    char *state_dir;
    char *accept_gaps;
    uint64_t deadline_s;
    uint64_t slow_host;
    char *log_level;
    char *log_format;
};

#define TEXT(name, variable, member, standard, list, text)                                         \
    {                                                                                              \
        .flag = (name), .environment = (variable), .type = CR_SETTING_STRING,                      \
        .offset = offsetof(struct settings, member), .fallback = (standard), .is_list = (list),    \
        .help = (text)                                                                             \
    }

static const struct cr_setting table[] = {
    TEXT("state-dir", "CRISOL_STATE_DIR", state_dir, "/var/lib/crisol", false,
         "Folder where runtimes are registered; the same as of sandboxd."),
    TEXT("accept-gap", NULL, accept_gaps, NULL, true,
         "As of sandboxd, for the smoke test. Repeatable."),
    {
        .flag = "deadline-s",
        .type = CR_SETTING_UINT,
        .offset = offsetof(struct settings, deadline_s),
        .fallback = "1800",
        .min = 1,
        .max = 86400,
        .help = "A build that takes longer is given up.",
    },
    CR_SLOWNESS_SETTING(offsetof(struct settings, slow_host)),
    TEXT("log-level", NULL, log_level, "info", false, "error, warn, info or debug."),
    TEXT("log-format", NULL, log_format, "text", false, "text or json."),
};

/* ---- build ---- */

/* What a build is made from: a file, or the name of a runtime that is built in. */
struct source {
    char text[SBX_RUNTIME_FILE_MAX + 1];
    size_t size;
    char folder[PATH_MAX];
    struct sbx_runtime runtime;
};

static int read_source(const char *name, struct source *source, struct cr_err *err)
{
    CR_AUTO_CLOSE int fd = -1;
    const char *shipped;
    char *slash;
    ssize_t n;

    if (sbx_runtime_shipped(name, &shipped, &source->size) == 0) {
        memcpy(source->text, shipped, source->size);
        (void)snprintf(source->folder, sizeof(source->folder), "/");
        return 0;
    }
    fd = openat(AT_FDCWD, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || !realpath(name, source->folder))
        return cr_err_sys(err, errno, "'%s' is no runtime that is built in, and no file", name);
    n = pread(fd, source->text, sizeof(source->text), 0);
    if (n < 0)
        return cr_err_sys(err, errno, "%s: read it", name);
    source->size = (size_t)n; /* one byte too many is seen by the parser */
    slash = strrchr(source->folder, '/');
    slash[slash == source->folder ? 1 : 0] = '\0';
    return 0;
}

static int load_source(const char *name, struct source *source, struct cr_err *err)
{
    const char *base = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
    const struct sbx_recipe *recipe = &source->runtime.recipe;
    int r = read_source(name, source, err);

    if (r == 0)
        r = sbx_runtime_file_parse(base, source->text, source->size, &source->runtime, err);
    if (r == 0 && !recipe->packages[0] && !recipe->folder && !recipe->archive)
        return cr_err_set(err, EINVAL,
                          "%s: has no recipe: build.package, build.folder or build.archive", base);
    return r;
}

static int write_file(const char *folder, const char *name, const char *text, size_t size,
                      struct cr_err *err)
{
    char path[PATH_MAX];
    CR_AUTO_CLOSE int fd = -1;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    fd = openat(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0 || write(fd, text, size) != (ssize_t)size || fsync(fd) < 0)
        return cr_err_sys(err, errno, "write '%s'", name);
    return 0;
}

static void show_log(int log_fd)
{
    char text[LOG_TAIL + 1];
    const off_t size = lseek(log_fd, 0, SEEK_END);
    const ssize_t n = pread(log_fd, text, LOG_TAIL, size > LOG_TAIL ? size - LOG_TAIL : 0);

    if (n > 0)
        (void)fwrite(text, 1, (size_t)n, stderr);
}

/* The folders of a build: it is a state folder of its own, with one runtime in it. */
struct place {
    char name[NAME_MAX + 1]; /* in the folder "runtimes" of the real one */
    char folder[PATH_MAX];   /* its path */
    /* Where the root is made: apt finds no key of the archive below a path with the ':' of a
     * version. */
    char made[PATH_MAX + 64];
    char own[PATH_MAX + 512]; /* of the runtime in it */
    char root[PATH_MAX + 768];
};

static int make_place(struct sbx_state *state, const char *name, struct place *place,
                      struct cr_err *err)
{
    char runtimes[PATH_MAX + 64];
    int r = sbx_state_begin(state, place->name, err);

    if (r < 0)
        return r;
    (void)snprintf(place->folder, sizeof(place->folder), "%s/%s", state->path, place->name);
    (void)snprintf(runtimes, sizeof(runtimes), "%s/" SBX_REGISTERED_FOLDER, place->folder);
    (void)snprintf(place->made, sizeof(place->made), "%s/" SBX_REGISTERED_ROOT, place->folder);
    (void)snprintf(place->own, sizeof(place->own), "%s/%s", runtimes, name);
    (void)snprintf(place->root, sizeof(place->root), "%s/" SBX_REGISTERED_ROOT, place->own);
    return mkdirat(AT_FDCWD, runtimes, 0755) < 0 || mkdirat(AT_FDCWD, place->own, 0755) < 0
               ? cr_err_sys(err, errno, "make the folders of the build")
               : 0;
}

static int digest_root(const struct sbx_build *build, char ret_digest[SBX_ROOT_DIGEST_SIZE],
                       uint64_t *ret_bytes, struct cr_err *err)
{
    CR_AUTO_CLOSE int fd =
        openat(AT_FDCWD, build->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0)
        return cr_err_sys(err, errno, "open the new root file system");
    *ret_bytes = sbx_tree_bytes(fd);
    if (*ret_bytes > build->room->most_bytes) /* none of its files alone is */
        return cr_err_set(err, EFBIG,
                          "the files of the root file system have %" PRIu64
                          " bytes, with their holes: more than three quarters of what was free "
                          "below --state-dir",
                          *ret_bytes);
    return sbx_tree_digest(fd, ret_digest, err);
}

static int make_root(const struct sbx_build *build, const struct place *place,
                     char ret_digest[SBX_ROOT_DIGEST_SIZE], uint64_t *ret_bytes, struct cr_err *err)
{
    int r = sbx_build_root(build, err);

    if (r == 0)
        r = digest_root(build, ret_digest, ret_bytes, err);
    if (r < 0)
        return r;
    return renameat(AT_FDCWD, place->made, AT_FDCWD, place->root) < 0
               ? cr_err_sys(err, errno, "put the new root file system in its place")
               : 0;
}

/* Everything but the registration: what fails leaves nothing that anybody could use. */
static int make(const struct settings *settings, const struct source *source,
                const struct place *place, int log_fd, char ret_digest[SBX_ROOT_DIGEST_SIZE],
                struct cr_err *err)
{
    struct sbx_room room = {.most_bytes = 0};
    const struct sbx_build build = {
        .runtime = &source->runtime,
        .source_folder = source->folder,
        .folder = place->folder,
        .root = place->made,
        .output_fd = log_fd,
        .deadline_ns = cr_clock_mono_ns() + (int64_t)settings->deadline_s * 1000 * CR_NS_PER_MS,
        .room = &room,
    };
    const struct sbx_smoke smoke = {
        .runtime = &source->runtime,
        .state_dir = place->folder,
        .accept_gaps = settings->accept_gaps,
    };
    char line[SBX_ROOT_DIGEST_SIZE + 1];
    uint64_t bytes = 0;
    int r = sbx_room_measure(place->folder, &room, err);

    if (r == 0)
        r = make_root(&build, place, ret_digest, &bytes, err);
    if (r < 0)
        return r;
    cr_log_info("root file system made runtime=%s digest=%s bytes=%" PRIu64, source->runtime.name,
                ret_digest, bytes);
    (void)snprintf(line, sizeof(line), "%s\n", ret_digest);
    r = write_file(place->own, SBX_REGISTERED_DIGEST, line, strlen(line), err);
    if (r == 0)
        r = write_file(place->own, SBX_REGISTERED_FILE, source->text, source->size, err);
    return r == 0 ? sbx_smoke_run(&smoke, err) : r;
}

static int build_in(struct sbx_state *state, const struct settings *settings,
                    const struct source *source, struct cr_err *err)
{
    CR_AUTO_CLOSE int log_fd = -1;
    char digest[SBX_ROOT_DIGEST_SIZE];
    struct place place = {.name = ""};
    char log[PATH_MAX + 64];
    int r = make_place(state, source->runtime.name, &place, err);

    if (r == 0) {
        (void)snprintf(log, sizeof(log), "%s/" LOG_FILE, place.folder);
        log_fd = openat(AT_FDCWD, log, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
        r = log_fd < 0 ? cr_err_sys(err, errno, "open the log of the build") : 0;
    }
    if (r == 0)
        r = make(settings, source, &place, log_fd, digest, err);
    if (r == 0)
        r = sbx_state_register(state, place.name, source->runtime.name, err);
    if (r < 0 && r != -EINTR)
        show_log(log_fd);
    if (*place.name)
        sbx_state_discard(state, place.name);
    if (r == 0)
        (void)printf("%s %s\n", source->runtime.name, digest);
    return r;
}

static int build_runtime(const struct settings *settings, const char *name, struct cr_err *err)
{
    struct sbx_state state = SBX_STATE_INIT;
    static struct source source; /* large */
    int r = load_source(name, &source, err);

    if (r == 0)
        r = sbx_state_open(settings->state_dir, &state, err);
    if (r == 0)
        r = sbx_tool_block_signals(err);
    if (r == 0)
        r = build_in(&state, settings, &source, err);
    sbx_state_close(&state);
    sbx_runtime_done(&source.runtime);
    return r;
}

/* ---- list and remove ---- */

static int list(const struct settings *settings, struct cr_err *err)
{
    struct sbx_runtime_table runtimes;
    CR_AUTO_BUF struct cr_buf bundle;
    int r;

    cr_buf_init(&bundle, SBX_BUNDLE_MAX);
    sbx_runtime_table_init(&runtimes);
    r = sbx_registered_take(settings->state_dir, &runtimes, &bundle, err);
    for (size_t i = 0; r == 0 && i < runtimes.count; i++) {
        if (runtimes.list[i].root[0])
            (void)printf("%s %s %s\n", runtimes.list[i].name, runtimes.list[i].root,
                         runtimes.list[i].description);
    }
    sbx_runtime_table_done(&runtimes);
    return r;
}

static int remove_one(const struct settings *settings, const char *name, struct cr_err *err)
{
    struct sbx_state state = SBX_STATE_INIT;
    int r = sbx_state_open(settings->state_dir, &state, err);

    if (r == 0)
        r = sbx_state_remove(&state, name, err);
    sbx_state_close(&state);
    return r;
}

/* ---- the command ---- */

static int check_settings(const struct settings *settings, struct cr_err *err)
{
    if (geteuid() != 0)
        return cr_err_set(err, EPERM, "sandboxd runtime must be started as root");
    if (settings->state_dir[0] != '/' || strlen(settings->state_dir) > NAME_MAX)
        return cr_err_set(err, EINVAL, "--state-dir: must be an absolute path of at most %d bytes",
                          NAME_MAX);
    return cr_log_setup_by_name("sandboxd", settings->log_level, settings->log_format, err);
}

static int dispatch(const struct settings *settings, const char *command, const char *argument,
                    struct cr_err *err)
{
    if (command && strcmp(command, "list") == 0 && !argument)
        return list(settings, err);
    if (command && strcmp(command, "build") == 0 && argument)
        return build_runtime(settings, argument, err);
    if (command && strcmp(command, "remove") == 0 && argument)
        return remove_one(settings, argument, err);
    return cr_err_set(err, EINVAL,
                      "usage: sandboxd runtime build FILE|NAME, sandboxd runtime list, or sandboxd "
                      "runtime remove NAME; --help tells the settings");
}

/* The words in front of the settings. */
static const char *take_word(int *argc, char **argv)
{
    const char *word = *argc > 1 && argv[1][0] != '-' ? argv[1] : NULL;

    if (!word)
        return NULL;
    (*argc)--;
    for (int i = 1; i <= *argc; i++)
        argv[i] = argv[i + 1];
    return word;
}

int main(int argc, char **argv)
{
    struct settings settings = {0};
    struct cr_err err = CR_ERR_INIT;
    const char *command = take_word(&argc, argv);
    const char *argument = command ? take_word(&argc, argv) : NULL;
    int r;

    cr_log_setup("sandboxd", CR_LOG_INFO, CR_LOG_TEXT);
    (void)umask(022);
    r = cr_config_load(table, CR_ARRAY_SIZE(table), "sandboxd runtime",
                       "sandboxd runtime build FILE|NAME   makes, tests and registers the root "
                       "file system of a runtime\nsandboxd runtime list              those that "
                       "are registered, with their digests\nsandboxd runtime remove NAME       "
                       "removes one",
                       argc, argv, &settings, &err);
    if (r == 1) /* --help */
        return EXIT_SUCCESS;
    cr_patience_set(settings.slow_host);
    if (r == 0)
        r = check_settings(&settings, &err);
    if (r == 0)
        r = dispatch(&settings, command, argument, &err);
    if (r < 0)
        cr_log_error("%s", err.text);
    cr_config_done(table, CR_ARRAY_SIZE(table), &settings);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
