/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "proto/descriptor_set.h"
#include "rpc/listener.h"
#include "tests/integration/rpc/service.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * Serves test_service on the addresses given until standard input ends. Prints
 * one line with the TCP port of each address (0 for unix sockets) when it is
 * ready. For tests with clients in other languages.
 */
static void check(int r, const struct cr_err *err)
{
    if (r == 0)
        return;
    (void)fprintf(stderr, "listener_server: %s\n", err->text);
    exit(EXIT_FAILURE);
}

int main(int argc, char **argv)
{
    static struct test_service service;
    const struct rpc_method *const tables[] = {test_service_methods};
    const struct rpc_server_options options = {
        .context = &service,
        .descriptor_set = crisol_descriptor_set,
        .descriptor_set_size = (size_t)(crisol_descriptor_set_end - crisol_descriptor_set)};
    struct rpc_listener *listener = NULL;
    struct rpc_server *server = NULL;
    struct cr_err err = CR_ERR_INIT;
    char byte;

    rpc_init();
    check(rpc_server_new(tables, 1, &options, &server, &err), &err);
    check(rpc_server_start(server, &err), &err);
    check(rpc_listener_new(server, NULL, &listener, &err), &err);
    for (int i = 1; i < argc; i++)
        check(rpc_listener_add(listener, argv[i], &err), &err);
    check(rpc_listener_start(listener, &err), &err);
    rpc_server_set_serving(server, "", true);
    for (int i = 1; i < argc; i++)
        (void)printf("%u ", rpc_listener_port(listener, (size_t)i - 1));
    (void)printf("\n");
    (void)fflush(stdout);

    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;

    rpc_listener_stop(listener);
    (void)rpc_server_drain(server, 2000);
    (void)rpc_listener_free(listener);
    (void)rpc_server_free(server);
    rpc_fini();
    return EXIT_SUCCESS;
}
