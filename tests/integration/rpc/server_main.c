/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A server of test_service on a unix socket, for clients in other languages:
 * server_main PATH. Writes "ready" when it accepts; drains on SIGTERM.
 */
#include "common/auto.h"
#include "common/err.h"
#include "common/log.h"
#include "proto/descriptor_set.h"
#include "rpc/listener.h"
#include "tests/integration/rpc/service.h"

#include <signal.h>
#include <stdio.h>

#include <sys/signalfd.h>

static int block_signals(void)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return -1;
    return signalfd(-1, &set, SFD_CLOEXEC);
}

static void wait_for_signal(int signals)
{
    struct signalfd_siginfo info;

    (void)!read(signals, &info, sizeof(info));
}

static int start(const char *path, struct rpc_server **ret_server,
                 struct rpc_listener **ret_listener, struct cr_err *err)
{
    const struct rpc_method *const tables[] = {test_service_methods};
    static struct test_service service;
    const struct rpc_server_options options = {
        .context = &service,
        .descriptor_set = crisol_descriptor_set,
        .descriptor_set_size = (size_t)(crisol_descriptor_set_end - crisol_descriptor_set),
    };
    const struct rpc_listener_options listener_options = {.edge = NULL};
    char address[256];
    int r = rpc_server_new(tables, 1, &options, ret_server, err);

    (void)snprintf(address, sizeof(address), "unix:%s", path);
    if (r == 0)
        r = rpc_server_start(*ret_server, err);
    if (r == 0)
        r = rpc_listener_new(*ret_server, &listener_options, ret_listener, err);
    if (r == 0)
        r = rpc_listener_add(*ret_listener, address, err);
    if (r == 0)
        r = rpc_listener_start(*ret_listener, err);
    return r;
}

int main(int argc, char **argv)
{
    CR_AUTO_CLOSE int signals = block_signals();
    struct rpc_listener *listener = NULL;
    struct rpc_server *server = NULL;
    struct cr_err err = CR_ERR_INIT;
    bool is_clean;

    if (argc != 2 || signals < 0)
        return 2;
    rpc_init();
    if (start(argv[1], &server, &listener, &err) < 0) {
        cr_log_error("%s", err.text);
        return 1;
    }
    rpc_server_set_serving(server, "", true);
    (void)!write(STDOUT_FILENO, "ready\n", 6);
    wait_for_signal(signals);
    rpc_listener_stop(listener);
    is_clean = rpc_server_drain(server, 5000);
    (void)rpc_listener_free(listener);
    (void)rpc_server_free(server);
    rpc_fini();
    return is_clean ? 0 : 3;
}
