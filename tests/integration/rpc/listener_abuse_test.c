/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/clock.h"
#include "google/protobuf/any.pb-c.h"
#include "rpc/status.h"
#include "tests/harness/h2_names.h"
#include "tests/harness/rpc_group.h"
#include "tests/integration/rpc/fixture.h"
#include "tests/integration/rpc/listener_fixture.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <sys/socket.h>
#include <sys/time.h>

/*
 * What brings gRPC core down when it listens by itself (some of it for seven
 * seconds), against the listener: the attacker is cut off, and somebody who
 * calls meanwhile, with the same uid, is served.
 */

/* Without the guard these cost seconds. Of the processor, not of the clock: the machine that runs
 * the tests may be busy. */
#define WORST_CALL_MS 500
#define GROWTH_KIB 65536
#define ATTACK_NS (2 * CR_NS_PER_S)

static const struct rpc_listener_options defaults = {.edge = NULL};

/* ---- the one who behaves ---- */

struct good_client {
    const char *address;
    pthread_t thread;
    atomic_bool is_done;
    atomic_int calls;
    int failures;
    int64_t worst_ns;     /* of a call */
    int64_t worst_cpu_ns; /* what this process worked during one, everybody in it */
};

static int64_t cpu_ns(void)
{
    struct timespec time;

    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time), 0);
    return time.tv_sec * CR_NS_PER_S + time.tv_nsec;
}

static void take_worst(int64_t value_ns, int64_t *worst_ns)
{
    if (value_ns > *worst_ns)
        *worst_ns = value_ns;
}

static void *call_and_measure(void *user)
{
    struct good_client *client = user;
    struct rpc_channel *channel = listening_connect(client->address);

    while (!client->is_done) {
        int64_t start_ns = cr_clock_mono_ns();
        int64_t start_cpu_ns = cpu_ns();

        client->failures += listening_echo(channel, "well-behaved", 20000) != RPC_OK;
        client->calls++;
        take_worst(cr_clock_mono_ns() - start_ns, &client->worst_ns);
        take_worst(cpu_ns() - start_cpu_ns, &client->worst_cpu_ns);
        (void)poll(NULL, 0, 1);
    }
    (void)rpc_channel_free(channel);
    return NULL;
}

static long resident_kib(void)
{
    CR_AUTO_FCLOSE FILE *file = fopen("/proc/self/status", "re");
    char line[128];
    long size = -1;

    while (file && fgets(line, sizeof(line), file))
        if (strncmp(line, "VmRSS:", 6) == 0)
            size = strtol(line + 6, NULL, 10);
    assert_true(size > 0);
    return size;
}

/* ---- the one who does not ---- */

struct attack {
    const struct listening *listening;
    struct cr_buf buf;
};

static void add_frame(struct cr_buf *buf, uint8_t type, uint8_t flags, uint32_t stream,
                      const void *payload, size_t size)
{
    const uint8_t header[9] = {(uint8_t)(size >> 16),
                               (uint8_t)(size >> 8),
                               (uint8_t)size,
                               type,
                               flags,
                               (uint8_t)(stream >> 24),
                               (uint8_t)(stream >> 16),
                               (uint8_t)(stream >> 8),
                               (uint8_t)stream};

    assert_int_equal(cr_buf_add(buf, header, sizeof(header)), 0);
    assert_int_equal(cr_buf_add(buf, payload, size), 0);
}

static void add_opening(struct cr_buf *buf)
{
    assert_int_equal(cr_buf_add_str(buf, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 0);
    add_frame(buf, SETTINGS, NONE, 0, "", 0);
}

/* HPACK without a table (RFC 7541, 6.2.2). */
static void add_field(struct cr_buf *buf, const char *name, const char *value)
{
    assert_int_equal(cr_buf_add_char(buf, 0), 0);
    assert_int_equal(cr_buf_add_char(buf, (char)strlen(name)), 0);
    assert_int_equal(cr_buf_add_str(buf, name), 0);
    assert_int_equal(cr_buf_add_char(buf, (char)strlen(value)), 0);
    assert_int_equal(cr_buf_add_str(buf, value), 0);
}

static void add_request(struct cr_buf *buf, uint8_t flags, uint32_t stream)
{
    CR_AUTO_BUF struct cr_buf block = {0};

    cr_buf_init(&block, 4096);
    add_field(&block, ":method", "POST");
    add_field(&block, ":scheme", "http");
    add_field(&block, ":path", "/crisol.test.v1.TestService/Echo");
    add_field(&block, ":authority", "test");
    add_field(&block, "te", "trailers");
    add_field(&block, "content-type", "application/grpc");
    add_frame(buf, HEADERS, flags, stream, block.data, block.size);
}

/* True when everything went out; false when the other side has closed. */
static bool send_all(int fd, const struct cr_buf *buf)
{
    const struct timeval patience = {.tv_sec = 2};
    int64_t due_ns = cr_clock_mono_ns() + ATTACK_NS;

    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)), 0);
    for (size_t at = 0; at < buf->size && cr_clock_mono_ns() < due_ns;) {
        ssize_t size = send(fd, buf->data + at, buf->size - at, MSG_NOSIGNAL);

        if (size <= 0)
            return false;
        at += (size_t)size;
    }
    return true;
}

/* One connection that sends all of it and must be closed for it. */
static void attack_once(struct attack *attack, bool is_unix)
{
    CR_AUTO_CLOSE int fd = listening_raw(attack->listening, is_unix);

    assert_true(fd >= 0);
    (void)send_all(fd, &attack->buf);
    wait_for_close(fd);
}

static void rapid_reset(struct cr_buf *buf)
{
    for (uint32_t stream = 1; stream < 10000; stream += 2) {
        add_request(buf, END_HEADERS, stream);
        add_frame(buf, RESET, NONE, stream, "\0\0\0\10", 4);
    }
}

/* One header whose announced length never arrives: core's decoder is quadratic in it. */
static void endless_header(struct cr_buf *buf)
{
    static const char FIELD[] = "\0\1a\x7f\xff\xff\xff\x07"; /* name "a", value of 16 MB */
    static const char FILL[512];

    add_frame(buf, HEADERS, NONE, 1, FIELD, sizeof(FIELD) - 1);
    for (int i = 0; i < 10000; i++)
        add_frame(buf, CONTINUATION, NONE, 1, FILL, sizeof(FILL));
}

static void streams_without_end(struct cr_buf *buf)
{
    for (uint32_t stream = 1; stream < 20000; stream += 2)
        add_request(buf, END_HEADERS, stream);
}

static void pings(struct cr_buf *buf)
{
    for (int i = 0; i < 20000; i++)
        add_frame(buf, PING, NONE, 0, "12345678", 8);
}

static void settings(struct cr_buf *buf)
{
    for (int i = 0; i < 20000; i++)
        add_frame(buf, SETTINGS, NONE, 0, "\0\4\0\0\377\377", 6);
}

static void empty_data(struct cr_buf *buf)
{
    add_request(buf, END_HEADERS, 1);
    for (int i = 0; i < 20000; i++)
        add_frame(buf, DATA, NONE, 1, "", 0);
}

static void unknown_frames(struct cr_buf *buf)
{
    for (int i = 0; i < 20000; i++)
        add_frame(buf, 200, NONE, 0, "?", 1);
}

static const struct {
    const char *name;
    void (*build)(struct cr_buf *buf);
} attacks[] = {
    {"rapid reset", rapid_reset},
    {"endless header", endless_header},
    {"streams without end", streams_without_end},
    {"pings", pings},
    {"settings", settings},
    {"empty data", empty_data},
    {"unknown frames", unknown_frames},
};

static void start_good_client(struct good_client *client, const char *address)
{
    memset(client, 0, sizeof(*client));
    client->address = address;
    assert_int_equal(pthread_create(&client->thread, NULL, call_and_measure, client), 0);
    wait_for_count(&client->calls, 10);
}

static void stop_good_client(struct good_client *client, const char *name)
{
    /* Some calls more, so that the last of the attack falls between them. */
    wait_for_count(&client->calls, client->calls + 10);
    client->is_done = true;
    assert_int_equal(pthread_join(client->thread, NULL), 0);
    print_message("%s: %d calls, worst %.1f ms, of the processor %.1f ms\n", name, client->calls,
                  (double)client->worst_ns / (double)CR_NS_PER_MS,
                  (double)client->worst_cpu_ns / (double)CR_NS_PER_MS);
    assert_int_equal(client->failures, 0);
    assert_true(client->worst_cpu_ns < WORST_CALL_MS * CR_NS_PER_MS);
}

static void the_well_behaved_are_served_during_every_flood(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(attacks); i++) {
        struct listening listening;
        struct attack attack = {.listening = &listening};
        struct good_client client;
        long before_kib;

        listening_start(&listening, defaults);
        cr_buf_init(&attack.buf, (size_t)16 << 20);
        add_opening(&attack.buf);
        attacks[i].build(&attack.buf);
        before_kib = resident_kib();
        start_good_client(&client, listening.unix_address);

        attack_once(&attack, true);
        attack_once(&attack, false);

        stop_good_client(&client, attacks[i].name);
        assert_true(resident_kib() - before_kib < GROWTH_KIB);
        cr_buf_done(&attack.buf);
        listening_stop(&listening);
    }
}

/* Connecting anew gives no new burst: the peer's own bucket and the accept rate hold. */
static void the_well_behaved_are_served_while_one_resets_and_reconnects(void **state)
{
    struct listening listening;
    struct attack attack = {.listening = &listening};
    struct good_client client;
    int64_t due_ns;

    (void)state;
    listening_start(&listening, defaults);
    cr_buf_init(&attack.buf, (size_t)1 << 20);
    add_opening(&attack.buf);
    for (uint32_t stream = 1; stream < 2 * 95; stream += 2) {
        add_request(&attack.buf, END_HEADERS, stream);
        add_frame(&attack.buf, RESET, NONE, stream, "\0\0\0\10", 4);
    }
    start_good_client(&client, listening.unix_address);

    due_ns = cr_clock_mono_ns() + ATTACK_NS;
    for (int i = 0; i < 200 && cr_clock_mono_ns() < due_ns; i++) {
        CR_AUTO_CLOSE int fd = listening_raw(&listening, true);

        if (fd >= 0)
            (void)send_all(fd, &attack.buf);
    }

    stop_good_client(&client, "reset and reconnect");
    cr_buf_done(&attack.buf);
    listening_stop(&listening);
}

static bool cancel_at_once(void *user, const ProtobufCMessage *message)
{
    (void)user;
    (void)message;
    return false;
}

/* Cancelling what runs is everyday use: never a reason to close, however often. */
static void ten_thousand_cancels_of_running_calls_are_borne(void **state)
{
    static const char COMMAND[] = "1000 1000";
    Google__Protobuf__Any request = GOOGLE__PROTOBUF__ANY__INIT;
    struct rpc_status status = RPC_STATUS_INIT;
    char command[sizeof(COMMAND)];
    struct listening listening;
    struct rpc_channel *channel;

    (void)state;
    listening_start(&listening, defaults);
    channel = listening_connect(listening.unix_address);
    memcpy(command, COMMAND, sizeof(command));
    request.value.data = (uint8_t *)command;
    request.value.len = sizeof(command) - 1;

    for (int i = 0; i < 10000; i++)
        assert_int_equal(rpc_stream_blocking(channel, &test_count, &request.base, 20000, -1,
                                             cancel_at_once, NULL, &status),
                         RPC_CANCELLED);

    assert_int_equal(listening_echo(channel, "still here", 5000), RPC_OK);
    (void)rpc_channel_free(channel);
    listening_stop(&listening);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_well_behaved_are_served_during_every_flood),
        cmocka_unit_test(the_well_behaved_are_served_while_one_resets_and_reconnects),
        cmocka_unit_test(ten_thousand_cancels_of_running_calls_are_borne),
    };

    return cmocka_run_group_tests(tests, test_rpc_init, test_rpc_fini);
}
