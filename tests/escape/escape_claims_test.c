/* SPDX-License-Identifier: Apache-2.0 */

/* Leaks, forged results and traps for the collector (L, F and C of the catalogue). */
#include "common/auto.h"
#include "sandboxd/wire/payload.h"
#include "tests/escape/box.h"
#include "tests/harness/test.h"
#include "tests/integration/sandboxd/native_host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define DEADLINE_MS 30000U

/* Runs and checks the verdict. */
static void run(const struct escape_spec *spec, enum sbx_verdict expected,
                struct native_run *ret_run)
{
    escape_run(spec, ret_run);
    escape_assert_verdict(ret_run, expected);
}

static void assert_prints(const struct escape_spec *spec, const char *expected)
{
    struct native_run result;

    run(spec, SBX_VERDICT_OK, &result);
    assert_string_equal(cr_buf_str(&result.out[0]), expected);
    native_run_done(&result);
}

/* True when somebody has connected. */
static bool has_caller(int listener)
{
    CR_AUTO_CLOSE int caller = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    return caller >= 0;
}

static void l10_the_hosts_loopback_is_out_of_reach(void **state)
{
    CR_AUTO_CLOSE int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof(address);
    char port[16];

    (void)state;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(listener, (const struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listener, 4), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    (void)snprintf(port, sizeof(port), "%u", (unsigned int)ntohs(address.sin_port));

    assert_prints(&(struct escape_spec){.behaviour = "connect-port", .argument = port},
                  "0 ECONNREFUSED\n");

    assert_false(has_caller(listener));
}

static void e71_abstract_sockets_of_the_host_are_out_of_reach(void **state)
{
    CR_AUTO_CLOSE int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char name[32];

    (void)state;
    (void)snprintf(name, sizeof(name), "escape-test-%d", getpid());
    (void)snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "%s", name);
    assert_int_equal(bind(listener, (const struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))),
                     0);
    assert_int_equal(listen(listener, 4), 0);

    assert_prints(&(struct escape_spec){.behaviour = "connect-abstract", .argument = name},
                  "0 ECONNREFUSED\n");

    assert_false(has_caller(listener));
}

/* Starts a run and waits for its first output. */
static void start_and_hear(const struct escape_spec *spec, struct native_run *ret_run)
{
    struct pollfd watch;

    escape_send(spec, ret_run);
    native_client_wait_started(&escape_client, ret_run);
    watch = (struct pollfd){.fd = ret_run->out_fds[0], .events = POLLIN};
    if (ret_run->out[0].size == 0) /* else it came together with STARTED */
        assert_int_equal(poll(&watch, 1, (int)(DEADLINE_MS * test_slowness())), 1);
}

static void cancel(struct native_run *run)
{
    native_client_cancel(&escape_client, run);
    native_client_wait(&escape_client, run, 1);
    escape_assert_verdict(run, SBX_VERDICT_CANCELLED);
    native_run_done(run);
}

static void l17_two_boxes_do_not_meet(void **state)
{
    struct native_run listener;

    (void)state;
    if (escape_client.hello.slots < 2)
        skip();
    start_and_hear(&(struct escape_spec){.behaviour = "listen", .argument = "meet"}, &listener);

    assert_prints(&(struct escape_spec){.behaviour = "connect-port", .argument = "1025"},
                  "0 ECONNREFUSED\n");
    assert_prints(&(struct escape_spec){.behaviour = "connect-abstract", .argument = "meet"},
                  "0 ECONNREFUSED\n");
    assert_prints(&(struct escape_spec){.behaviour = "count-processes"}, "1 none\n");

    cancel(&listener);
}

static void e19_programs_are_nobody_on_the_host(void **state)
{
    struct native_run listener;

    (void)state;
    start_and_hear(&(struct escape_spec){.behaviour = "listen", .argument = "x"}, &listener);

    /* The program has an id of the range of its own box (pid 1 has another of it). */
    assert_int_equal(native_client_count_programs(&escape_client), 1);

    cancel(&listener);
}

/* The collected files, in order; `expected` holds a status each. */
static void assert_collected(const struct native_run *run, const uint32_t *expected, size_t count)
{
    const struct cr_buf *stream = &run->out[2];
    size_t at = 0;

    for (size_t i = 0; i < count; i++) {
        struct sbx_collect_header header;

        assert_true(at + sizeof(header) <= stream->size);
        memcpy(&header, stream->data + at, sizeof(header));
        at += sizeof(header) + header.size;
        if (header.status != expected[i])
            fail_msg("file %zu: status %u, expected %u", i, header.status, expected[i]);
    }
    assert_int_equal(at, stream->size);
}

static void f13_results_are_read_when_everybody_is_dead(void **state)
{
    static const char *const collect[] = {"result", NULL};
    struct native_run result;
    struct sbx_collect_header header;

    (void)state;
    run(&(struct escape_spec){.behaviour = "rewrite-result", .collect = collect}, SBX_VERDICT_OK,
        &result);

    assert_int_equal(result.result.killed_leftovers, 1);
    assert_true(result.out[2].size >= sizeof(header));
    memcpy(&header, result.out[2].data, sizeof(header));
    /* Whole: what it was when the last writer died, never changed while it was read. */
    assert_int_equal(result.out[2].size, sizeof(header) + header.size);
    native_run_done(&result);
}

static void add(struct cr_buf *payload, enum sbx_payload_kind kind, uint32_t flags, uint32_t mode,
                const char *name, const char *data)
{
    assert_int_equal(
        sbx_payload_add(payload, kind, flags, mode, name, strlen(name), data, strlen(data)), 0);
}

static void f11_read_only_inputs_stay_what_they_were(void **state)
{
    CR_AUTO_BUF struct cr_buf payload = {0};
    const struct native_spec spec = {
        .payload = &payload, .flags = SBX_RUN_HAS_READ_ONLY, .has_collect = true};
    struct native_run result;

    (void)state;
    cr_buf_init(&payload, SBX_PAYLOAD_MAX);
    assert_int_equal(sbx_payload_begin(&payload), 0);
    add(&payload, SBX_PAYLOAD_ARG, 0, 0, "", "/bin/sh");
    add(&payload, SBX_PAYLOAD_ARG, 0, 0, "", "-c");
    add(&payload, SBX_PAYLOAD_ARG, 0, 0, "",
        "chmod -R 777 /workspace; echo forged > tests/test.py; rm -rf tests; mv tests other;"
        "mv other tests; ln -s /dev/null test.py; mv test.py tests; cp /etc/passwd tests/test.py;"
        "rm tests/test.py; mkdir -p tests; echo forged > tests/test.py; exit 0");
    add(&payload, SBX_PAYLOAD_FILE, SBX_PAYLOAD_FILE_READ_ONLY, 0, "tests/test.py", "pristine");
    add(&payload, SBX_PAYLOAD_COLLECT, 0, 100, "tests/test.py", "");
    sbx_payload_end(&payload);

    native_client_run(&escape_client, &spec, &result);

    escape_assert_verdict(&result, SBX_VERDICT_OK);
    assert_int_equal(result.out[2].size, sizeof(struct sbx_collect_header) + strlen("pristine"));
    assert_memory_equal(result.out[2].data + sizeof(struct sbx_collect_header), "pristine",
                        strlen("pristine"));
    native_run_done(&result);
}

static void c01_the_collector_walks_into_no_trap(void **state)
{
    static const char *const collect[] = {"link",   "folder/passwd", "magic",   "fifo", "honest",
                                          "second", "sparse",        "missing", NULL};
    static const uint32_t expected[] = {3, 3, 3, 3, 3, 3, 4, 2};
    struct native_run result;

    (void)state;
    run(&(struct escape_spec){.behaviour = "make-traps", .collect = collect}, SBX_VERDICT_OK,
        &result);

    assert_collected(&result, expected, CR_ARRAY_SIZE(expected));
    assert_null(memmem(result.out[2].data, result.out[2].size, "root:", 5));
    native_run_done(&result);
}

static void c20_a_run_finds_nothing_of_the_one_before(void **state)
{
    struct native_run result;

    (void)state;
    for (int i = 0; i < 4; i++) { /* more than there are slots to reuse */
        run(&(struct escape_spec){.behaviour = "leave-traces"}, SBX_VERDICT_OK, &result);
        native_run_done(&result);
        run(&(struct escape_spec){.behaviour = "places"}, SBX_VERDICT_OK, &result);
        assert_non_null(strstr(cr_buf_str(&result.out[0]), "workspace-is-clean ok\n"));
        assert_non_null(strstr(cr_buf_str(&result.out[0]), "tmp-is-clean ok\n"));
        assert_non_null(strstr(cr_buf_str(&result.out[0]), "shm-is-clean ok\n"));
        native_run_done(&result);
    }
}

static int count_entries(const char *path)
{
    DIR *dir = opendir(path);
    int count = 0;

    assert_non_null(dir);
    while (readdir(dir))
        count++;
    assert_int_equal(closedir(dir), 0);
    return count;
}

#define RUNS 90 /* more than a group with its files has, twice */

static void c32_the_backend_keeps_its_fds(void **state)
{
    struct native_run result;
    char path[64];
    int before;

    (void)state;
    (void)snprintf(path, sizeof(path), "/proc/%d/fd", escape_client.pid);
    before = count_entries(path);

    for (int i = 0; i < RUNS; i++) {
        run(&(struct escape_spec){.behaviour = i % 2 ? "die" : "exit", .argument = "6"},
            i % 2 ? SBX_VERDICT_SIGNALED : SBX_VERDICT_NONZERO_EXIT, &result);
        native_run_done(&result);
    }

    /* A slot that is being cleared or made ready holds a few; one per run would be a leak. */
    assert_true(count_entries(path) < before + RUNS);
}

#define TEST(function) cmocka_unit_test_teardown(function, escape_check_next)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(l10_the_hosts_loopback_is_out_of_reach),
        TEST(e71_abstract_sockets_of_the_host_are_out_of_reach),
        TEST(l17_two_boxes_do_not_meet),
        TEST(e19_programs_are_nobody_on_the_host),
        TEST(f13_results_are_read_when_everybody_is_dead),
        TEST(f11_read_only_inputs_stay_what_they_were),
        TEST(c01_the_collector_walks_into_no_trap),
        TEST(c20_a_run_finds_nothing_of_the_one_before),
        TEST(c32_the_backend_keeps_its_fds),
    };

    if (geteuid() != 0)
        return 77; /* boxes take root */
    return cmocka_run_group_tests(tests, escape_start, escape_stop);
}
