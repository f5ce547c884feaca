/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/tls_files.h"
#include "grpc/health/v1/health.pb-c.h"
#include "rpc/client.h"
#include "rpc/server.h"
#include "rpc/status.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * A client that behaves, for tests in which others do not: over one
 * connection, one health check after the other with a millisecond between
 * them. Reads commands of one byte: 'g' to go, 's' to stop and print
 * "calls failures worst_us" of the calls since. Ends with its input.
 *
 * Usage: abuse_probe TARGET [TOKEN]
 */
#define DEADLINE_MS 30000

static const struct rpc_client_method check = {
    .path = "/grpc.health.v1.Health/Check",
    .request = &grpc__health__v1__health_check_request__descriptor,
    .response = &grpc__health__v1__health_check_response__descriptor,
};

struct tally {
    int calls;
    int failures;
    int64_t worst_ns;
};

static void call_once(struct rpc_channel *channel, struct tally *tally)
{
    static const Grpc__Health__V1__HealthCheckRequest request =
        GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *response = NULL;
    int64_t start_ns = cr_clock_mono_ns();
    int64_t took_ns;

    if (rpc_call_blocking(channel, &check, &request.base, DEADLINE_MS, &response, &status) !=
        RPC_OK) {
        tally->failures++;
        (void)fprintf(stderr, "abuse_probe: code %d: %s\n", status.code, status.message);
    }
    rpc_message_free(response);
    took_ns = cr_clock_mono_ns() - start_ns;
    tally->calls++;
    if (took_ns > tally->worst_ns)
        tally->worst_ns = took_ns;
}

static void print(const struct tally *tally)
{
    (void)printf("%d %d %" PRId64 "\n", tally->calls, tally->failures, tally->worst_ns / 1000);
    (void)fflush(stdout);
}

/* With the files of a link by TLS behind the token: authority, certificate, key, name. */
static struct rpc_channel *connect_to(int argc, char **argv)
{
    struct rpc_channel_options options = {.target = argv[1]};
    struct cr_tls_material material = {{NULL}};
    struct cr_err err = CR_ERR_INIT;
    struct rpc_channel *channel = NULL;
    int r = 0;

    if (argc > 2 && argv[2][0])
        options.token = argv[2];
    if (argc > 6) {
        const struct cr_tls_paths paths = {{argv[4], argv[5], argv[3]}};
        int fd = cr_tls_files_open(&paths, &err);

        r = fd < 0 ? fd : cr_tls_material_read(fd, &material, &err);
        options.tls = &material;
        options.tls_name = argv[6];
        if (fd >= 0)
            (void)close(fd);
    }
    if (r == 0)
        r = rpc_channel_new(&options, &channel, &err);
    cr_tls_material_done(&material);
    if (r == 0)
        return channel;
    (void)fprintf(stderr, "abuse_probe: %s\n", err.text);
    exit(EXIT_FAILURE);
}

/* Calls until there is a command. */
static void go(struct rpc_channel *channel)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    struct tally tally = {0};

    do
        call_once(channel, &tally);
    while (poll(&input, 1, 1) == 0);
    print(&tally);
}

int main(int argc, char **argv)
{
    struct rpc_channel *channel;
    char command;

    if (argc < 2 || (argc > 3 && argc != 7)) {
        (void)fprintf(stderr,
                      "Usage: abuse_probe TARGET [TOKEN [AUTHORITY CERTIFICATE KEY NAME]]\n");
        return EXIT_FAILURE;
    }
    rpc_init();
    channel = connect_to(argc, argv);
    while (read(STDIN_FILENO, &command, 1) == 1) {
        if (command == 'g')
            go(channel);
    }
    (void)rpc_channel_free(channel);
    rpc_fini();
    return EXIT_SUCCESS;
}
