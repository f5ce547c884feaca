/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/beside.h"
#include "common/err.h"
#include "common/log.h"
#include "common/notify.h"
#include "common/patience.h"
#include "common/unconst.h"
#include "sandboxd/supervisor/check.h"
#include "sandboxd/supervisor/child.h"
#include "sandboxd/supervisor/child_args.h"
#include "sandboxd/supervisor/open_files.h"
#include "sandboxd/supervisor/rootless.h"
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
    int r;

    if (geteuid() != 0)
        return cr_err_set(err, EPERM,
                          "sandboxd must be started as root, because it makes namespaces, control "
                          "groups and users for the sandboxes; start it with sudo. Callers need no "
                          "root: --socket-owner=UID names who may call. As an ordinary user it "
                          "runs with --rootless, which does less");
    r = sbx_open_files_raise(err);
    return r < 0 ? r : sbx_supervisor_run(settings, notify, err);
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

/*
 * Leaves in the environment what `lines`, of room for `size` with its end, has
 * already, and behind it what there is of `names`.
 */
static void keep_environment(char **lines, size_t size, const char *const *names, size_t name_count)
{
    size_t count = 0;

    while (lines[count])
        count++;
    for (char **line = environ; line && *line; line++) {
        const size_t length = strcspn(*line, "=");

        for (size_t i = 0; i < name_count && count < size - 1; i++) {
            if (strlen(names[i]) == length && memcmp(*line, names[i], length) == 0)
                lines[count++] = *line;
        }
    }
    environ = lines;
}

/* It has one setting that the environment gives. */
static int become_selftest(char **argv, struct cr_err *err)
{
    static const char *const kept[] = {CR_SLOWNESS_ENVIRONMENT};
    static char *environment[CR_ARRAY_SIZE(kept) + 1];

    keep_environment(environment, CR_ARRAY_SIZE(environment), kept, CR_ARRAY_SIZE(kept));
    return become("sandboxd-selftest", argv, err);
}

/* A build fetches packages: through the proxy, and from the index, of whoever starts it. */
static int become_builder(char **argv, struct cr_err *err)
{
    static const char *const kept[] = {
        "http_proxy",    "https_proxy",         "no_proxy",
        "HTTP_PROXY",    "HTTPS_PROXY",         "NO_PROXY",
        "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", CR_SLOWNESS_ENVIRONMENT};
    static char path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
    static char locale[] = "LC_ALL=C.UTF-8";
    static char home[] = "HOME=/root";
    static char epoch[] = "SOURCE_DATE_EPOCH=0"; /* what is made does not depend on when */
    static char xz[] = "XZ_OPT=-T1"; /* each thread would take memory, of which tar has a bound */
    static char *environment[CR_ARRAY_SIZE(kept) + 6] = {path, locale, home, epoch, xz};

    keep_environment(environment, CR_ARRAY_SIZE(environment), kept, CR_ARRAY_SIZE(kept));
    return become("sandboxd-build", argv, err);
}

/* `sandboxd gc`: removes what a docker engine keeps of earlier services of ours. */
static int collect_garbage(const struct sbx_settings *settings, struct cr_err *err)
{
    struct sbx_child_args args = {0};
    int r = sbx_docker_gc_args_make(settings, &args);

    r = r < 0 ? cr_err_set(err, ENOMEM, "out of memory for the arguments of sandboxd-docker")
              : sbx_child_run("sandboxd-docker", cr_unconst(args.list), true,
                              cr_patience_ms(GC_DEADLINE_MS), err);
    sbx_child_args_done(&args);
    return r > 0 ? cr_err_set(err, EIO, "not everything was removed; the lines above say why") : r;
}

enum command {
    COMMAND_SERVE, /* none */
    COMMAND_CHECK,
    COMMAND_GC,
    COMMAND_SELFTEST,
    COMMAND_RUNTIME,
    COMMAND_COUNT,
};

/* The first word, when it is a command; taken out of the arguments. */
static int take_command(int *argc, char **argv, enum command *ret_command, struct cr_err *err)
{
    static const char *const names[COMMAND_COUNT] = {[COMMAND_CHECK] = "check",
                                                     [COMMAND_GC] = "gc",
                                                     [COMMAND_SELFTEST] = "selftest",
                                                     [COMMAND_RUNTIME] = "runtime"};
    const char *word = *argc > 1 && argv[1][0] != '-' ? argv[1] : NULL;
    int command = COMMAND_SERVE + 1;

    *ret_command = COMMAND_SERVE;
    if (!word)
        return 0;
    while (command < COMMAND_COUNT && strcmp(word, names[command]) != 0)
        command++;
    if (command == COMMAND_COUNT)
        return cr_err_set(err, EINVAL,
                          "'%s' is no command: check, selftest, runtime or gc; none serves", word);
    (*argc)--;
    for (int i = 1; i <= *argc; i++)
        argv[i] = argv[i + 1];
    *ret_command = (enum command)command;
    return 0;
}

static int serve(const struct sbx_settings *settings, const struct cr_notify *notify,
                 struct cr_err *err)
{
    sbx_settings_log(settings);
    return run(settings, notify, err);
}

/* All that needs the environment. A command of another program does not come back from here. */
static int prepare(enum command command, int argc, char **argv, struct sbx_settings *settings,
                   struct cr_notify *notify, struct cr_err *err)
{
    int r;

    if (command == COMMAND_RUNTIME)
        return become_builder(argv, err);
    if (command == COMMAND_SELFTEST)
        return become_selftest(argv, err);
    r = sbx_settings_load(argc, argv, settings, err);
    /* It is named in the environment. */
    return r == 0 && command == COMMAND_SERVE ? cr_notify_open(notify, err) : r;
}

static int carry_out(enum command command, const struct sbx_settings *settings,
                     const struct cr_notify *notify, struct cr_err *err)
{
    if (command == COMMAND_GC)
        return collect_garbage(settings, err);
    return command == COMMAND_CHECK ? sbx_check_run(settings, err) : serve(settings, notify, err);
}

static int enter_rootless(struct sbx_settings *settings, struct cr_err *err)
{
    uint32_t ids = 0;
    int r = sbx_rootless_enter(&ids, err);

    settings->front_user = ids > 0 ? SBX_ROOTLESS_FRONT_ID : 0; /* else the only one there is */
    return r;
}

int main(int argc, char **argv)
{
    struct sbx_settings settings = {0};
    struct cr_notify notify = CR_NOTIFY_INIT;
    struct cr_err err = CR_ERR_INIT;
    enum command command;
    int r;

    cr_log_setup("sandboxd", CR_LOG_INFO, CR_LOG_TEXT);
    r = take_command(&argc, argv, &command, &err);
    if (r == 0)
        r = prepare(command, argc, argv, &settings, &notify, &err);
    wipe_environment();
    (void)umask(077);
    if (r == 1 && settings.must_check_config) {
        r = sbx_check_config(&settings, &err);
        r = r < 0 ? r : 1;
    }
    if (r == 0 && settings.is_rootless && command != COMMAND_GC)
        r = enter_rootless(&settings, &err);
    if (r == 0)
        r = carry_out(command, &settings, &notify, &err);
    if (r < 0)
        cr_log_error("%s", err.text);
    cr_notify_close(&notify);
    sbx_settings_done(&settings);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
