/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/gemini-replay/hostile.h"
#include "clients/gemini-replay/script.h"
#include "clients/gemini-replay/server.h"
#include "common/auto.h"
#include "common/config.h"
#include "common/err.h"
#include "common/listen.h"
#include "common/log.h"

#include <signal.h>
#include <string.h>

#include <sys/signalfd.h>

struct settings {
    char *listen;
    char *script;
    char *key;
    uint64_t delay_ms;
    uint64_t think_min_ms;
    uint64_t think_max_ms;
    uint64_t seed;
    bool is_hostile;
    bool print_task;
};

static const struct cr_setting settings_table[] = {
    {.flag = "listen",
     .type = CR_SETTING_STRING,
     .offset = offsetof(struct settings, listen),
     .fallback = "127.0.0.1:0",
     .help = "Loopback address to serve on; port 0 takes a free one."},
    {.flag = "script",
     .type = CR_SETTING_STRING,
     .offset = offsetof(struct settings, script),
     .is_list = true,
     .help = "File with the answers. May be repeated; the first that fits wins."},
    {.flag = "delay-ms",
     .type = CR_SETTING_UINT,
     .offset = offsetof(struct settings, delay_ms),
     .fallback = "5",
     .max = 60000,
     .help = "Wait between two chunks of an answer."},
    {.flag = "think-min-ms",
     .type = CR_SETTING_UINT,
     .offset = offsetof(struct settings, think_min_ms),
     .max = 600000,
     .help = "Wait before an answer begins: at least so long."},
    {.flag = "think-max-ms",
     .type = CR_SETTING_UINT,
     .offset = offsetof(struct settings, think_max_ms),
     .max = 600000,
     .help = "At most so long; which time of these it is depends on the request alone."},
    {.flag = "hostile",
     .type = CR_SETTING_BOOL,
     .offset = offsetof(struct settings, is_hostile),
     .help = "Play known faults of servers in place of scripts: model gemini-wire-NAME; GET "
             "/v1beta/models lists them."},
    {.flag = "seed",
     .type = CR_SETTING_UINT,
     .offset = offsetof(struct settings, seed),
     .fallback = "1",
     .max = UINT32_MAX,
     .help = "Of --hostile: line ends, comments, framing and sizes of writes."},
    {.flag = "print-task",
     .type = CR_SETTING_BOOL,
     .offset = offsetof(struct settings, print_task),
     .help = "Print the task that the script plays, and exit."},
    {.flag = "key",
     .environment = "GEMINI_REPLAY_KEY",
     .type = CR_SETTING_STRING,
     .offset = offsetof(struct settings, key),
     .is_secret = true,
     .help = "The only key to accept. Default: any, but one must be sent."},
};

static bool is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strncmp(address, "localhost:", 10) == 0 ||
           strncmp(address, "[::1]:", 6) == 0;
}

/* Readable at SIGINT or SIGTERM. */
static int open_stop_fd(int *ret_fd, struct cr_err *err)
{
    sigset_t signals;
    int fd;

    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
    fd = signalfd(-1, &signals, SFD_CLOEXEC);
    if (fd < 0)
        return cr_err_sys(err, errno, "watch for signals");
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGPIPE); /* a client that left is seen by its write */
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
    *ret_fd = fd;
    return 0;
}

static int serve_scripts(const struct settings *settings, const struct replay_scripts *scripts,
                         int listen_fd, int stop_fd, struct cr_err *err)
{
    const struct replay_server_options options = {.listen_fd = listen_fd,
                                                  .scripts = scripts,
                                                  .key = settings->key,
                                                  .delay_ms = (uint32_t)settings->delay_ms,
                                                  .think_min_ms = (uint32_t)settings->think_min_ms,
                                                  .think_max_ms = (uint32_t)settings->think_max_ms};
    struct replay_server *server = NULL;
    int r = replay_server_new(&options, &server, err);

    if (r == 0)
        r = replay_server_run(server, stop_fd, err);
    (void)replay_server_free(server);
    return r;
}

static int serve(const struct settings *settings, const struct replay_scripts *scripts,
                 struct cr_err *err)
{
    CR_AUTO_CLOSE int stop_fd = -1;
    struct cr_listen listen = CR_LISTEN_INIT;
    struct hostile_options hostile = {.seed = settings->seed};
    int r;

    if (!is_loopback(settings->listen))
        return cr_err_set(err, EINVAL, "--listen=%s: only loopback addresses (127.0.0.1:PORT)",
                          settings->listen);
    if (settings->think_min_ms > settings->think_max_ms)
        return cr_err_set(err, EINVAL, "--think-min-ms=%llu: is more than --think-max-ms=%llu",
                          (unsigned long long)settings->think_min_ms,
                          (unsigned long long)settings->think_max_ms);
    r = open_stop_fd(&stop_fd, err);
    if (r == 0)
        r = cr_listen_open(settings->listen, (uid_t)-1, &listen, err);
    if (r < 0)
        return r;
    (void)printf("gemini-replay listening on 127.0.0.1:%u\n", listen.port);
    (void)fflush(stdout);
    hostile.listen_fd = listen.fd;
    hostile.port = listen.port;
    r = settings->is_hostile ? hostile_run(&hostile, stop_fd, err)
                             : serve_scripts(settings, scripts, listen.fd, stop_fd, err);
    cr_listen_close(&listen);
    return r;
}

static int run(const struct settings *settings, struct cr_err *err)
{
    struct replay_scripts scripts = {0};
    int r;

    if (settings->is_hostile)
        return serve(settings, &scripts, err);
    if (!settings->script)
        return cr_err_set(err, EINVAL,
                          "--script=FILE is needed: the answers to give (or --hostile)");
    r = replay_scripts_load(settings->script, &scripts, err);
    if (r < 0)
        return r;
    if (settings->print_task)
        (void)puts(scripts.items[0].task);
    else
        r = serve(settings, &scripts, err);
    replay_scripts_done(&scripts);
    return r;
}

int main(int argc, char **argv)
{
    struct settings settings = {0};
    struct cr_err err = CR_ERR_INIT;
    int r;

    cr_log_setup("gemini-replay", CR_LOG_INFO, CR_LOG_TEXT);
    r = cr_config_load(settings_table, CR_ARRAY_SIZE(settings_table), "gemini-replay",
                       "Speaks Gemini's HTTP interface from scripted answers. No model is called.",
                       argc, argv, &settings, &err);
    if (r == 0)
        r = run(&settings, &err);
    if (r < 0)
        (void)fprintf(stderr, "gemini-replay: %s\n", err.text);
    cr_config_done(settings_table, CR_ARRAY_SIZE(settings_table), &settings);
    return r < 0 ? 1 : 0;
}
