/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "sandboxd/docker/preload.h"
#include "sandboxd/wire/payload.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <sys/mman.h>

/* ---- the order ---- */

static const char filter_bytes[] = "not a filter, but as many bytes";

static void make_order(enum sbx_template_kind kind, struct cr_buf *order)
{
    CR_AUTO_CLOSE int fd = memfd_create("filter", MFD_CLOEXEC);

    assert_int_equal(write(fd, filter_bytes, sizeof(filter_bytes)), sizeof(filter_bytes));
    cr_buf_init(order, SBX_DOCKER_PRELOAD_MAX);
    assert_int_equal(sbx_docker_preload_order(kind, fd, order, NULL), 0);
}

/* The frame at `*at`, which is a whole one. */
static struct sbx_stream_header next_frame(const struct cr_buf *order, size_t *at,
                                           const uint8_t **ret_data)
{
    struct sbx_stream_header header;

    assert_true(order->size - *at >= sizeof(header));
    memcpy(&header, (const uint8_t *)order->data + *at, sizeof(header));
    *at += sizeof(header);
    assert_true(order->size - *at >= header.size);
    *ret_data = (const uint8_t *)order->data + *at;
    *at += header.size;
    return header;
}

static bool has(const struct sbx_payload_item *item, const char *name, const char *data)
{
    return item->record.name_size == strlen(name) && memcmp(item->name, name, strlen(name)) == 0 &&
           item->record.data_size == strlen(data) && memcmp(item->data, data, strlen(data)) == 0;
}

static void an_order_is_a_filter_a_payload_and_a_word(void **state)
{
    CR_AUTO_BUF struct cr_buf order;
    struct sbx_payload_reader reader;
    struct sbx_payload_item item;
    struct sbx_stream_preload word;
    struct sbx_stream_header header;
    const uint8_t *data;
    bool has_loader = false;
    bool has_program = false;
    size_t at = 0;

    (void)state;
    make_order(SBX_TEMPLATE_PYTEST, &order);
    header = next_frame(&order, &at, &data);
    assert_int_equal(header.kind, SBX_STREAM_FILTER);
    assert_int_equal(header.size, sizeof(filter_bytes));
    assert_memory_equal(data, filter_bytes, sizeof(filter_bytes));

    header = next_frame(&order, &at, &data);
    assert_int_equal(header.kind, SBX_STREAM_PAYLOAD);
    assert_int_equal(sbx_payload_open(&reader, data, header.size), 0);
    while (sbx_payload_next(&reader, &item) == 1) {
        has_loader = has_loader || has(&item, "LD_PRELOAD", SBX_TEMPLATE_IMAGE_PATH);
        has_program = has_program || has(&item, "", "/usr/bin/python3");
    }
    assert_true(has_loader && has_program);

    header = next_frame(&order, &at, &data);
    assert_int_equal(header.kind, SBX_STREAM_PRELOAD);
    assert_int_equal(header.size, sizeof(word));
    memcpy(&word, data, sizeof(word));
    assert_int_equal(word.version, SBX_STREAM_VERSION);
    assert_int_equal(word.kind, SBX_TEMPLATE_PYTEST);
    assert_int_equal(at, order.size);
}

/* ---- the answer ---- */

struct answer {
    uint8_t bytes[1024];
    size_t size;
};

/* One frame of sandbox-init in one of the engine. */
static void add(struct answer *answer, uint8_t stream, uint32_t kind, const void *data,
                uint32_t size)
{
    const struct sbx_stream_header header = {.kind = kind, .size = size};
    const uint8_t engine[8] = {stream, 0, 0, 0, 0, 0, 0, (uint8_t)(sizeof(header) + size)};

    memcpy(answer->bytes + answer->size, engine, sizeof(engine));
    memcpy(answer->bytes + answer->size + sizeof(engine), &header, sizeof(header));
    memcpy(answer->bytes + answer->size + sizeof(engine) + sizeof(header), data, size);
    answer->size += sizeof(engine) + sizeof(header) + size;
}

static void add_event(struct answer *answer, enum sbx_init_event event, int error)
{
    const struct sbx_init_msg msg = {.event = event, .error = error};

    add(answer, 1, SBX_STREAM_EVENT, &msg, sizeof(msg));
}

static int feed(struct sbx_docker_preload *preload, const struct answer *answer, size_t step)
{
    int r = 0;

    sbx_docker_preload_init(preload);
    for (size_t at = 0; at < answer->size && r == 0; at += step)
        r = sbx_docker_preload_feed(preload, answer->bytes + at,
                                    answer->size - at < step ? answer->size - at : step);
    return r;
}

static void waiting_is_understood_at_any_chunking(void **state)
{
    struct answer answer = {.size = 0};
    struct sbx_docker_preload preload;

    (void)state;
    add_event(&answer, SBX_INIT_WAITING, 0);
    for (size_t step = 1; step <= answer.size; step++)
        assert_int_equal(feed(&preload, &answer, step), 1);
    answer.size--;
    assert_int_equal(feed(&preload, &answer, 7), 0);
}

static void a_failure_comes_with_its_words(void **state)
{
    struct answer answer = {.size = 0};
    struct sbx_docker_preload preload;

    (void)state;
    add(&answer, 1, SBX_STREAM_STDERR, "no \"module\"\n\x1b", 13);
    add_event(&answer, SBX_INIT_FAILED, EPIPE);
    for (size_t step = 1; step <= answer.size; step++) {
        assert_int_equal(feed(&preload, &answer, step), -ECANCELED);
        assert_int_equal(preload.last.error, EPIPE);
        assert_string_equal(preload.words, "no  module   ");
    }
}

static void words_are_cut(void **state)
{
    struct answer answer = {.size = 0};
    struct sbx_docker_preload preload;
    char text[100];

    (void)state;
    memset(text, 'x', sizeof(text));
    for (int i = 0; i < 5; i++)
        add(&answer, 1, SBX_STREAM_STDERR, text, sizeof(text));
    assert_int_equal(feed(&preload, &answer, answer.size), 0);
    assert_int_equal(strlen(preload.words), SBX_TEMPLATE_WORDS_MAX - 1);
}

static void anything_else_is_refused(void **state)
{
    struct sbx_docker_preload preload;
    struct answer answer = {.size = 0};

    (void)state;
    add_event(&answer, SBX_INIT_READY, 0); /* another event */
    assert_int_equal(feed(&preload, &answer, answer.size), -EPROTO);

    answer.size = 0;
    add(&answer, 1, SBX_STREAM_STDOUT, "x", 1); /* output */
    assert_int_equal(feed(&preload, &answer, answer.size), -EPROTO);

    answer.size = 0;
    add_event(&answer, SBX_INIT_WAITING, 0); /* something behind the end */
    add(&answer, 1, SBX_STREAM_STDERR, "x", 1);
    assert_int_equal(feed(&preload, &answer, answer.size), -EPROTO);

    answer.size = 0;
    add(&answer, 2, SBX_STREAM_EVENT, "", 0); /* the other stream is nobody's */
    assert_int_equal(feed(&preload, &answer, answer.size), 0);

    answer = (struct answer){.bytes = {9}, .size = 8}; /* no stream of the engine */
    assert_int_equal(feed(&preload, &answer, answer.size), -EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_order_is_a_filter_a_payload_and_a_word),
        cmocka_unit_test(waiting_is_understood_at_any_chunking),
        cmocka_unit_test(a_failure_comes_with_its_words),
        cmocka_unit_test(words_are_cut),
        cmocka_unit_test(anything_else_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
