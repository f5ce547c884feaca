/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/unconst.h"
#include "crisol/sandbox/v1/sandbox.pb-c.h"
#include "sandboxd/front/collect.h"
#include "sandboxd/front/compiled.h"
#include "sandboxd/runtimes/table.h"
#include "sandboxd/wire/payload.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define OK ((uint32_t)CRISOL__SANDBOX__V1__COLLECT_STATUS__COLLECT_STATUS_OK)
#define MATCHES_MAX 6

static const char *const patterns[] = {"**/*.class", "main", NULL};
static const struct sbx_runtime runtime = {.compile_output = patterns};

/* Collected files, each with its path as its content. */
struct collected {
    struct sbx_match matches[MATCHES_MAX];
    struct sbx_collected list[1];
};

static void fill(struct collected *collected, const char *const *paths)
{
    *collected = (struct collected){.list = {{.matches = collected->matches}}};
    for (size_t i = 0; paths[i]; i++) {
        struct sbx_match *match = &collected->matches[i];

        match->path = cr_unconst(paths[i]);
        match->status = OK;
        cr_buf_init(&match->data, 64);
        assert_int_equal(cr_buf_add_str(&match->data, paths[i]), 0);
        collected->list[0].match_count++;
    }
}

static void done(struct collected *collected)
{
    for (size_t i = 0; i < collected->list[0].match_count; i++)
        cr_buf_done(&collected->matches[i].data);
}

static void pack(const char *const *paths, struct cr_buf *bytes)
{
    struct collected collected;

    cr_buf_init(bytes, SBX_PAYLOAD_MAX);
    fill(&collected, paths);
    assert_int_equal(sbx_compiled_pack(collected.list, 1, bytes), 0);
    done(&collected);
}

static void compiled_files_are_packed_in_order_and_once(void **state)
{
    static const char *const paths[] = {"p-q/B.class", "main", "p/A.class", "main", NULL};
    static const char *const order[] = {"main", "p/A.class", "p-q/B.class"};
    struct sbx_payload_reader reader;
    struct sbx_payload_item item;
    CR_AUTO_BUF struct cr_buf bytes;

    (void)state;
    pack(paths, &bytes);
    assert_int_equal(sbx_payload_open(&reader, bytes.data, bytes.size), 0);
    for (size_t i = 0; i < CR_ARRAY_SIZE(order); i++) {
        assert_int_equal(sbx_payload_next(&reader, &item), 1);
        assert_int_equal(item.record.name_size, strlen(order[i]));
        assert_memory_equal(item.name, order[i], strlen(order[i]));
        assert_memory_equal(item.data, order[i], strlen(order[i]));
        assert_int_equal(item.record.mode, 0755);
    }
    assert_int_equal(sbx_payload_next(&reader, &item), 0);
    assert_int_equal(sbx_compiled_check(bytes.data, bytes.size, &runtime), 0);
}

static void compiled_files_that_were_not_read_are_left_out(void **state)
{
    static const char *const paths[] = {"main", "A.class", NULL};
    struct collected collected;
    CR_AUTO_BUF struct cr_buf bytes;

    (void)state;
    cr_buf_init(&bytes, SBX_PAYLOAD_MAX);
    fill(&collected, paths);
    collected.matches[0].status = OK + 1;
    collected.matches[1].status = OK + 2;
    assert_int_equal(sbx_compiled_pack(collected.list, 1, &bytes), 0);
    done(&collected);
    /* Then there are none, which no stage leaves. */
    assert_int_equal(sbx_compiled_check(bytes.data, bytes.size, &runtime), -EPROTO);
}

static int check_record(enum sbx_payload_kind kind, uint32_t flags, uint32_t mode,
                        const char *const *names)
{
    CR_AUTO_BUF struct cr_buf bytes;

    cr_buf_init(&bytes, SBX_PAYLOAD_MAX);
    assert_int_equal(sbx_payload_begin(&bytes), 0);
    for (size_t i = 0; names[i]; i++)
        assert_int_equal(
            sbx_payload_add(&bytes, kind, flags, mode, names[i], strlen(names[i]), "x", 1), 0);
    sbx_payload_end(&bytes);
    return sbx_compiled_check(bytes.data, bytes.size, &runtime);
}

/* An artifact is a caller's own: it may hold no more than a stage could leave. */
static void compiled_refuses_what_no_stage_leaves(void **state)
{
    static const char *const good[] = {"main", NULL};
    static const char *const other[] = {"main.c", NULL};
    static const char *const out[] = {"../A.class", NULL};
    static const char *const twice[] = {"main", "main", NULL};
    static const char *const back[] = {"main", "A.class", NULL};
    static const char *const folder[] = {"A.class", "A.class/B.class", NULL};

    (void)state;
    assert_int_equal(check_record(SBX_PAYLOAD_FILE, 0, 0755, good), 0);
    assert_int_equal(check_record(SBX_PAYLOAD_FILE, 0, 04755, good), -EPROTO);
    assert_int_equal(check_record(SBX_PAYLOAD_FILE, SBX_PAYLOAD_FILE_READ_ONLY, 0755, good),
                     -EPROTO);
    assert_int_equal(check_record(SBX_PAYLOAD_ENV, 0, 0, good), -EPROTO);
    assert_int_equal(check_record(SBX_PAYLOAD_FILE, 0, 0755, other), -EPROTO);
    assert_int_equal(check_record(SBX_PAYLOAD_FILE, 0, 0755, out), -EPROTO);
    assert_int_equal(check_record(SBX_PAYLOAD_FILE, 0, 0755, twice), -EPROTO);
    assert_int_equal(check_record(SBX_PAYLOAD_FILE, 0, 0755, back), -EPROTO);
    assert_int_equal(check_record(SBX_PAYLOAD_FILE, 0, 0755, folder), -EPROTO);
    assert_int_equal(sbx_compiled_check("", 0, &runtime), -EPROTO);
}

static int add_beside(const char *file)
{
    static const char *const paths[] = {"main", "p/A.class", NULL};
    CR_AUTO_BUF struct cr_buf bytes;
    CR_AUTO_BUF struct cr_buf payload;

    pack(paths, &bytes);
    cr_buf_init(&payload, SBX_PAYLOAD_MAX);
    assert_int_equal(sbx_payload_begin(&payload), 0);
    assert_int_equal(
        sbx_payload_add(&payload, SBX_PAYLOAD_FILE, 0, 0644, file, strlen(file), "x", 1), 0);
    return sbx_compiled_add(bytes.data, bytes.size, &payload);
}

/* Else the sandbox would fail, and be blamed for it. */
static void compiled_files_never_lie_where_another_does(void **state)
{
    (void)state;
    assert_int_equal(add_beside("input.txt"), 0);
    assert_int_equal(add_beside("p/B.class"), 0);
    assert_int_equal(add_beside("main"), -EEXIST);
    assert_int_equal(add_beside("main/x"), -EEXIST);
    assert_int_equal(add_beside("p"), -EEXIST);
    assert_int_equal(add_beside("p-"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compiled_files_are_packed_in_order_and_once),
        cmocka_unit_test(compiled_files_that_were_not_read_are_left_out),
        cmocka_unit_test(compiled_refuses_what_no_stage_leaves),
        cmocka_unit_test(compiled_files_never_lie_where_another_does),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
