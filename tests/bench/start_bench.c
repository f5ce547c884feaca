/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long does sandboxd take from its exec to SERVING? Starts it, asks its
 * health until it serves, and ends it, once per call of this program.
 * Prints one JSON object.
 *
 * Usage: start_bench SOCKET SANDBOXD [FLAG…]
 */
#include "common/auto.h"
#include "common/clock.h"
#include "grpc/health/v1/health.pb-c.h"
#include "rpc/client.h"
#include "rpc/server.h"
#include "rpc/status.h"
#include "tests/bench/execute.h"
#include "tests/bench/samples.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#define START_DEADLINE_NS (30 * CR_NS_PER_S)
#define STOP_DEADLINE_MS 30000
#define ASK_AGAIN_NS (CR_NS_PER_MS / 2)

static const struct rpc_client_method method_check = {
    "/grpc.health.v1.Health/Check",
    &grpc__health__v1__health_check_request__descriptor,
    &grpc__health__v1__health_check_response__descriptor,
};

static bool is_listening(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CR_AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    return fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
}

static bool is_serving(struct rpc_channel *channel)
{
    Grpc__Health__V1__HealthCheckRequest request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *base = NULL;
    bool result = false;

    if (rpc_call_blocking(channel, &method_check, &request.base, 1000, &base, &status) == RPC_OK)
        result = ((const Grpc__Health__V1__HealthCheckResponse *)(void *)base)->status ==
                 GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING;
    rpc_message_free(base);
    return result;
}

/* Waits for `condition`; gives the nanoseconds since `begin_ns`, or -ETIMEDOUT. */
static int64_t wait_for(struct rpc_channel *channel, bool (*condition)(struct rpc_channel *),
                        int64_t begin_ns)
{
    while (!condition(channel)) {
        if (cr_clock_mono_ns() - begin_ns > START_DEADLINE_NS)
            return -ETIMEDOUT;
        bench_wait_until(cr_clock_mono_ns() + ASK_AGAIN_NS);
    }
    return cr_clock_mono_ns() - begin_ns;
}

static int measure(const char *path, int64_t begin_ns)
{
    struct rpc_channel *channel = NULL;
    char address[128];
    int64_t serving_ns;
    int64_t full_ns;

    while (!is_listening(path)) {
        if (cr_clock_mono_ns() - begin_ns > START_DEADLINE_NS)
            return -ETIMEDOUT;
        bench_wait_until(cr_clock_mono_ns() + ASK_AGAIN_NS);
    }
    (void)snprintf(address, sizeof(address), "unix:%s", path);
    if (bench_connect(address, &channel) < 0)
        return -EIO;
    serving_ns = wait_for(channel, is_serving, begin_ns);
    full_ns = wait_for(channel, bench_is_pool_full, begin_ns);
    (void)rpc_channel_free(channel);
    if (serving_ns < 0 || full_ns < 0)
        return -ETIMEDOUT;
    (void)printf("{\"bench\":\"start\",\"serving_ms\":%.2f,\"pool_full_ms\":%.2f}\n",
                 (double)serving_ns / (double)CR_NS_PER_MS, (double)full_ns / (double)CR_NS_PER_MS);
    return 0;
}

static int stop(pid_t pid)
{
    CR_AUTO_CLOSE int pidfd = pidfd_open(pid, 0);
    struct pollfd end = {.fd = pidfd, .events = POLLIN};
    int status = -1;

    (void)kill(pid, SIGTERM);
    if (pidfd < 0 || poll(&end, 1, STOP_DEADLINE_MS) != 1)
        (void)kill(pid, SIGKILL);
    return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : -EPROTO;
}

int main(int argc, char **argv)
{
    int64_t begin_ns = cr_clock_mono_ns();
    pid_t pid;
    int r;

    if (argc < 3) {
        (void)fprintf(stderr, "usage: start_bench SOCKET SANDBOXD [FLAG...]\n");
        return 2;
    }
    /* Before rpc_init(): gRPC core must not be forked. */
    if (posix_spawn(&pid, argv[2], NULL, NULL, argv + 2, environ) != 0)
        return 1;
    rpc_init();
    r = measure(argv[1], begin_ns);
    rpc_fini();
    if (stop(pid) < 0 || r < 0) {
        (void)fprintf(stderr, "bench: sandboxd did not serve and end as it must\n");
        return 1;
    }
    return 0;
}
