/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "sandboxd/init/stream_input.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static uint8_t piece[SBX_STREAM_CREDIT];

static int keep(struct sbx_stream_input *input, size_t size)
{
    const struct sbx_stream_item item = {.kind = SBX_STREAM_STDIN, .data = piece, .size = size};

    return sbx_stream_input_keep(input, &item);
}

/* *ret_fd is what the program reads from. */
static struct sbx_stream_input *open_input(int *ret_fd)
{
    static struct sbx_stream_input input; /* large */
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    input = (struct sbx_stream_input){.fd = ends[1]};
    *ret_fd = ends[0];
    return &input;
}

static void credit_comes_back_when_all_has_left(void **state)
{
    int fd;
    struct sbx_stream_input *input = open_input(&fd);

    (void)state;
    assert_int_equal(fcntl(fd, F_SETPIPE_SZ, 4096), 4096);
    assert_int_equal(keep(input, 5000), 0);
    sbx_stream_input_write(input);
    assert_int_equal(sbx_stream_input_take_credit(input), 0);
    assert_int_equal(read(fd, piece, sizeof(piece)), 4096);
    assert_int_equal(keep(input, 10), 0);
    sbx_stream_input_write(input);
    assert_int_equal(sbx_stream_input_take_credit(input), 5010);
    assert_int_equal(sbx_stream_input_take_credit(input), 0);
    assert_int_equal(read(fd, piece, sizeof(piece)), 914);

    sbx_stream_input_close(input);
    (void)close(fd);
}

static void more_than_the_credit_is_refused(void **state)
{
    int fd;
    struct sbx_stream_input *input = open_input(&fd);

    (void)state;
    assert_int_equal(keep(input, SBX_STREAM_CREDIT), 0);
    assert_int_equal(keep(input, 1), -EPROTO);
    assert_int_equal(keep(input, 0), 0); /* the end takes none */

    sbx_stream_input_close(input);
    (void)close(fd);
}

static void what_nobody_reads_gives_its_credit_back(void **state)
{
    int fd;
    struct sbx_stream_input *input = open_input(&fd);

    (void)state;
    (void)close(fd);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(keep(input, SBX_STREAM_CREDIT), 0);
        if (input->fd >= 0)
            sbx_stream_input_write(input);
        assert_int_equal(input->fd, -1);
        assert_int_equal(sbx_stream_input_take_credit(input), SBX_STREAM_CREDIT);
    }
}

static void the_end_closes_behind_the_bytes_and_is_typed_into_a_terminal(void **state)
{
    (void)state;
    for (int is_terminal = 0; is_terminal < 2; is_terminal++) {
        int fd;
        struct sbx_stream_input *input = open_input(&fd);
        uint8_t got[8];

        input->is_terminal = is_terminal;
        memcpy(piece, "hi\n", 3);
        assert_int_equal(keep(input, 3), 0);
        assert_int_equal(keep(input, 0), 0);
        assert_int_equal(keep(input, 0), 0); /* once is enough */
        sbx_stream_input_write(input);
        assert_int_equal(input->fd, -1);
        assert_int_equal(sbx_stream_input_take_credit(input), 3);
        assert_int_equal(read(fd, got, sizeof(got)), is_terminal ? 4 : 3);
        assert_memory_equal(got, "hi\n\4", is_terminal ? 4 : 3);
        assert_int_equal(read(fd, got, sizeof(got)), 0);
        (void)close(fd);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(credit_comes_back_when_all_has_left),
        cmocka_unit_test(more_than_the_credit_is_refused),
        cmocka_unit_test(what_nobody_reads_gives_its_credit_back),
        cmocka_unit_test(the_end_closes_behind_the_bytes_and_is_typed_into_a_terminal),
    };
    const struct sigaction ignore = {.sa_handler = SIG_IGN};

    (void)sigaction(SIGPIPE, &ignore, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
