/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "sandboxd/backend/collector.h"
#include "sandboxd/wire/payload.h"
#include "tests/harness/test.h"

#include <fcntl.h>
#include <string.h>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#define MAX_BYTES 100U
#define SLOT_ID 1000 /* what a collector becomes when the test runs as root */

/* A workspace and the list of files to collect from it. */
struct box {
    char path[64];
    int fd;
    struct cr_buf payload;
    uint64_t size; /* that is asked about; 0: none */
    int other_fd;  /* another place to look into; -1: none */
};

static int make_box(void **state)
{
    static struct box box;

    box = (struct box){.other_fd = -1};
    test_folder_make(box.path, sizeof(box.path));
    box.fd = open(box.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cr_buf_init(&box.payload, SBX_PAYLOAD_MAX);
    *state = &box;
    if (box.fd < 0 || fchmod(box.fd, 0777) < 0)
        return -1;
    return sbx_payload_begin(&box.payload);
}

static int remove_box(void **state)
{
    struct box *box = *state;

    (void)close(box->fd);
    cr_buf_done(&box->payload);
    return test_remove_tree(box->path);
}

static void write_file(const struct box *box, const char *name, const char *text)
{
    CR_AUTO_CLOSE int fd = openat(box->fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void ask_for(struct box *box, const char *name, uint32_t max_bytes)
{
    assert_int_equal(sbx_payload_add(&box->payload, SBX_PAYLOAD_COLLECT, 0, max_bytes, name,
                                     strlen(name), NULL, 0),
                     0);
}

/* Starts a collector for the payload; *ret_fd is the read end of its pipe. */
static pid_t start(struct box *box, int *ret_fd, int pipe_flags)
{
    CR_AUTO_CLOSE int payload_fd = -1;
    struct sbx_collector_plan plan = {
        .workspace_fd = box->fd,
        .id = geteuid() == 0 ? SLOT_ID : geteuid(),
        .size = box->size,
        .places = {box->fd, box->other_fd},
        .place_count = box->other_fd < 0 ? 1 : 2,
    };
    pid_t pid = -1;
    int ends[2];

    sbx_payload_end(&box->payload);
    payload_fd = sbx_payload_seal(&box->payload, NULL);
    assert_true(payload_fd >= 0);
    assert_int_equal(pipe2(ends, O_CLOEXEC | pipe_flags), 0);
    plan.payload_fd = payload_fd;
    plan.out_fd = ends[1];
    assert_int_equal(sbx_collector_start(&plan, &pid, NULL), 0);
    assert_int_equal(close(ends[1]), 0);
    *ret_fd = ends[0];
    return pid;
}

static void assert_ends_with(pid_t pid, int expected_status)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, expected_status);
}

/* The whole stream of a collector that works. */
static size_t collect(struct box *box, uint8_t *data, size_t room)
{
    CR_AUTO_CLOSE int fd = -1;
    const pid_t pid = start(box, &fd, 0);
    size_t size = 0;
    ssize_t got;

    while ((got = read(fd, data + size, room - size)) > 0)
        size += (size_t)got;
    assert_int_equal(got, 0);
    assert_ends_with(pid, 0);
    return size;
}

static void assert_status(struct box *box, const char *name, uint32_t expected)
{
    struct sbx_collect_header header;
    uint8_t data[4096];

    cr_buf_clear(&box->payload);
    assert_int_equal(sbx_payload_begin(&box->payload), 0);
    ask_for(box, name, MAX_BYTES);
    assert_true(collect(box, data, sizeof(data)) >= sizeof(header));
    memcpy(&header, data, sizeof(header));
    if (header.status != expected)
        fail_msg("%s: status %u, expected %u", name, header.status, expected);
    if (expected != 1)
        assert_int_equal(header.size, 0);
}

static void collector_sends_files_in_order(void **state)
{
    struct box *box = *state;
    const int fds_before = test_count_fds();
    const struct sbx_collect_header expected[] = {{1, 3, 0}, {2, 0, 0}, {1, 0, 0}};
    const size_t head = sizeof(expected[0]);
    uint8_t data[4096];

    assert_int_equal(mkdirat(box->fd, "d", 0777), 0);
    write_file(box, "d/one", "one");
    write_file(box, "empty", "");
    ask_for(box, "d/one", MAX_BYTES);
    ask_for(box, "missing", MAX_BYTES);
    ask_for(box, "empty", MAX_BYTES);

    assert_int_equal(collect(box, data, sizeof(data)), sizeof(expected) + 3);

    assert_memory_equal(data, &expected[0], head);
    assert_memory_equal(data + head, "one", 3);
    assert_memory_equal(data + head + 3, &expected[1], 2 * head);
    assert_int_equal(test_count_fds(), fds_before);
}

static void collector_follows_no_link(void **state)
{
    struct box *box = *state;

    write_file(box, "file", "x");
    assert_int_equal(mkdirat(box->fd, "real", 0777), 0);
    write_file(box, "real/inner", "x");
    assert_int_equal(symlinkat("/etc/passwd", box->fd, "absolute"), 0);
    assert_int_equal(symlinkat("file", box->fd, "relative"), 0);
    assert_int_equal(symlinkat("loop", box->fd, "loop"), 0);
    assert_int_equal(symlinkat("/proc/self/fd/3", box->fd, "magic"), 0);
    assert_int_equal(symlinkat("real", box->fd, "folder"), 0);
    assert_int_equal(symlinkat("/etc", box->fd, "etc"), 0);

    assert_status(box, "absolute", 3);
    assert_status(box, "relative", 3);
    assert_status(box, "loop", 3);
    assert_status(box, "magic", 3);
    assert_status(box, "folder/inner", 3);
    assert_status(box, "etc/passwd", 3);
    assert_status(box, "real/inner", 1);
}

static void collector_reads_regular_files_only(void **state)
{
    struct box *box = *state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CR_AUTO_CLOSE int socket_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", box->path);
    assert_int_equal(bind(socket_fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(mkfifoat(box->fd, "fifo", 0666), 0);
    assert_int_equal(mkdirat(box->fd, "folder", 0777), 0);
    write_file(box, "first", "x");
    assert_int_equal(linkat(box->fd, "first", box->fd, "second", 0), 0);
    write_file(box, "file", "x");

    assert_status(box, "fifo", 3);
    assert_status(box, "socket", 3);
    assert_status(box, "folder", 3);
    assert_status(box, "first", 3);
    assert_status(box, "file/below", 2);
}

static void collector_holds_the_size_limit(void **state)
{
    struct box *box = *state;
    char text[MAX_BYTES + 2];

    memset(text, 'x', sizeof(text));
    text[MAX_BYTES + 1] = 0;
    write_file(box, "larger", text);
    text[MAX_BYTES] = 0;
    write_file(box, "exact", text);
    write_file(box, "sparse", "");
    {
        CR_AUTO_CLOSE int fd = openat(box->fd, "sparse", O_WRONLY | O_CLOEXEC);

        assert_int_equal(ftruncate(fd, INT64_C(1) << 40), 0);
    }

    assert_status(box, "exact", 1);
    assert_status(box, "larger", 4);
    assert_status(box, "sparse", 4);
}

static void collector_has_no_more_rights_than_the_slot(void **state)
{
    struct box *box = *state;

    write_file(box, "secret", "x");
    assert_int_equal(fchmodat(box->fd, "secret", 0, 0), 0);

    assert_status(box, "secret", 5);
}

static void ask_for_glob(struct box *box, const char *pattern, uint32_t most)
{
    assert_int_equal(sbx_payload_add(&box->payload, SBX_PAYLOAD_COLLECT, SBX_PAYLOAD_COLLECT_GLOB,
                                     MAX_BYTES, pattern, strlen(pattern), &most, sizeof(most)),
                     0);
}

/* What a pattern gives, as "path=content path=!status … status". */
static const char *glob(struct box *box, const char *pattern, uint32_t most)
{
    static uint8_t data[1U << 20];
    static char text[1U << 20];
    size_t size;
    size_t used = 0;

    cr_buf_clear(&box->payload);
    assert_int_equal(sbx_payload_begin(&box->payload), 0);
    ask_for_glob(box, pattern, most);
    size = collect(box, data, sizeof(data));
    for (size_t at = 0; at < size;) {
        struct sbx_collect_header header;
        const char *name = (const char *)data + at + sizeof(header);

        memcpy(&header, data + at, sizeof(header));
        if (header.name_size == 0)
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%u", header.status);
        else if (header.status != 1)
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%.*s=!%u ",
                                     (int)header.name_size, name, header.status);
        else
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%.*s=%.*s ",
                                     (int)header.name_size, name, (int)header.size,
                                     name + header.name_size);
        at += sizeof(header) + header.name_size + header.size;
    }
    return text;
}

static void pattern_gives_the_regular_files_in_order(void **state)
{
    struct box *box = *state;
    const int fds_before = test_count_fds();

    assert_int_equal(mkdirat(box->fd, "d", 0777), 0);
    assert_int_equal(mkdirat(box->fd, "d/e", 0777), 0);
    assert_int_equal(mkdirat(box->fd, "closed", 0777), 0);
    write_file(box, "b.txt", "B");
    write_file(box, "a.txt", "A");
    write_file(box, "d/c.txt", "C");
    write_file(box, "d/e/f.txt", "F");
    write_file(box, "d/e/f.bin", "N");
    write_file(box, "closed/x.txt", "X");
    write_file(box, "secret.txt", "S");
    write_file(box, "bad\nname.txt", "?");
    write_file(box, "bad\xff.txt", "?");
    write_file(box, ".crisol-report.xml", "?");
    assert_int_equal(fchmodat(box->fd, "secret.txt", 0, 0), 0);

    assert_string_equal(glob(box, "*.txt", 9), "a.txt=A b.txt=B secret.txt=!5 1");
    assert_string_equal(glob(box, "**/*.txt", 99),
                        "a.txt=A b.txt=B closed/x.txt=X d/c.txt=C d/e/f.txt=F secret.txt=!5 1");
    assert_string_equal(glob(box, "d/**", 9), "d/c.txt=C d/e/f.bin=N d/e/f.txt=F 1");
    assert_string_equal(glob(box, "*", 2), "a.txt=A b.txt=B 6");
    assert_string_equal(glob(box, "d/[!a-z]*", 9), "2");
    assert_int_equal(fchmodat(box->fd, "closed", 0, 0), 0);
    assert_string_equal(glob(box, "closed/*", 9), "2");
    assert_int_equal(fchmodat(box->fd, "closed", 0777, 0), 0);
    assert_int_equal(test_count_fds(), fds_before);
}

static void pattern_follows_no_link_and_gives_no_other_kind(void **state)
{
    struct box *box = *state;

    assert_int_equal(mkdirat(box->fd, "real", 0777), 0);
    write_file(box, "real/passwd", "mine");
    write_file(box, "twice", "x");
    assert_int_equal(linkat(box->fd, "twice", box->fd, "again", 0), 0);
    assert_int_equal(symlinkat("/etc", box->fd, "etc"), 0);
    assert_int_equal(symlinkat("real", box->fd, "folder"), 0);
    assert_int_equal(symlinkat(".", box->fd, "here"), 0);
    assert_int_equal(symlinkat("/etc/passwd", box->fd, "passwd"), 0);
    assert_int_equal(mkfifoat(box->fd, "fifo", 0666), 0);

    assert_string_equal(glob(box, "**/passwd", 9), "real/passwd=mine 1");
    assert_string_equal(glob(box, "**", 9), "again=!3 real/passwd=mine twice=!3 1");
}

static void pattern_is_bounded_in_what_it_looks_at(void **state)
{
    struct box *box = *state;
    char path[4096] = "deep";
    char name[32];

    for (int i = 0; i < 30; i++) {
        assert_int_equal(mkdirat(box->fd, path, 0777), 0);
        (void)strncat(path, "/d", sizeof(path) - strlen(path) - 1);
    }
    for (int i = 0; i < 1100; i++) {
        (void)snprintf(name, sizeof(name), "f%04d", i);
        write_file(box, name, "");
    }

    assert_string_equal(glob(box, "f?00[01]", 3), "f0000= f0001= f1000= 6");
    assert_true(strlen(glob(box, "**", SBX_PAYLOAD_GLOB_FILES_MAX)) ==
                SBX_PAYLOAD_GLOB_FILES_MAX * strlen("f0000= ") + 1);
}

static void collector_tells_whether_a_file_has_a_size(void **state)
{
    struct box *box = *state;

    static const struct {
        uint64_t size;
        int status;
    } rows[] = {
        {5, SBX_COLLECTOR_SIZE_SEEN << 8}, {4, 0}, {0, 0}, {3, SBX_COLLECTOR_SIZE_SEEN << 8}};

    assert_int_equal(mkdirat(box->fd, "d", 0777), 0);
    write_file(box, "d/five", "12345");
    write_file(box, "three", "123");
    assert_int_equal(symlinkat("/usr/bin", box->fd, "four"), 0); /* a link is no file */
    for (size_t i = 0; i < CR_ARRAY_SIZE(rows); i++) {
        CR_AUTO_CLOSE int fd = -1;
        char byte;

        cr_buf_clear(&box->payload);
        assert_int_equal(sbx_payload_begin(&box->payload), 0);
        box->size = rows[i].size;
        {
            const pid_t pid = start(box, &fd, 0);

            assert_int_equal(read(fd, &byte, 1), 0);
            assert_ends_with(pid, rows[i].status);
        }
    }
}

/* Not only /workspace can be written. */
static void collector_looks_for_a_size_in_every_place(void **state)
{
    struct box *box = *state;
    char path[TEST_PATH_SIZE];
    CR_AUTO_CLOSE int pipe_fd = -1;
    CR_AUTO_CLOSE int file_fd = -1;

    test_folder_make(path, sizeof(path));
    box->other_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(fchmod(box->other_fd, 0777), 0);
    file_fd = openat(box->other_fd, "five", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(ftruncate(file_fd, 5), 0);
    box->size = 5;

    assert_ends_with(start(box, &pipe_fd, 0), SBX_COLLECTOR_SIZE_SEEN << 8);

    assert_int_equal(unlinkat(box->other_fd, "five", 0), 0);
    assert_int_equal(close(box->other_fd), 0);
    assert_int_equal(rmdir(path), 0);
}

static void collector_refuses_a_malformed_payload(void **state)
{
    struct box *box = *state;
    CR_AUTO_CLOSE int fd = -1;
    uint8_t data[8];
    pid_t pid;

    ask_for(box, "../../etc/passwd", MAX_BYTES);

    pid = start(box, &fd, 0);

    assert_int_equal(read(fd, data, sizeof(data)), 0);
    assert_ends_with(pid, 1 << 8);
}

static void collector_ends_when_nobody_reads(void **state)
{
    struct box *box = *state;
    int fd = -1;
    pid_t pid;

    for (size_t i = 0; i < SBX_PAYLOAD_RECORDS_MAX; i++) /* more than a pipe holds */
        ask_for(box, "missing", MAX_BYTES);

    pid = start(box, &fd, O_NONBLOCK);
    assert_int_equal(close(fd), 0);

    assert_ends_with(pid, 1 << 8);
}

#define BOX_TEST(function) cmocka_unit_test_setup_teardown(function, make_box, remove_box)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOX_TEST(collector_sends_files_in_order),
        BOX_TEST(collector_follows_no_link),
        BOX_TEST(collector_reads_regular_files_only),
        BOX_TEST(collector_holds_the_size_limit),
        BOX_TEST(collector_has_no_more_rights_than_the_slot),
        BOX_TEST(pattern_gives_the_regular_files_in_order),
        BOX_TEST(pattern_follows_no_link_and_gives_no_other_kind),
        BOX_TEST(pattern_is_bounded_in_what_it_looks_at),
        BOX_TEST(collector_tells_whether_a_file_has_a_size),
        BOX_TEST(collector_looks_for_a_size_in_every_place),
        BOX_TEST(collector_refuses_a_malformed_payload),
        BOX_TEST(collector_ends_when_nobody_reads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
