/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/utf8.h"
#include "orchestrator/graph/clean.h"
#include "tests/harness/test.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *text;
    const char *clean;
} cases[] = {
    {"", ""},
    {"plain ñ 漢\ttext\n", "plain ñ 漢\ttext\n"},
    {"\x1b[31mred\x1b[0m", "red"},
    {"\x1b[1;38;5;9mbold\x1b[m\n", "bold\n"},
    {"\x1b]0;title\x07text", "text"},
    {"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"},
    {"\x1bPdata\x1b\\after", "after"},
    {"a\x1b(Bb", "aBb"}, /* two bytes are taken, no more */
    {"a\x1b[ñ \x1b[31ñ \x1bñ", "añ ñ ñ"},
    {"a\x1b", "a"},
    {"a\x1b[31", "a"},
    {"a\x1b]0;never ends\nnext", "a\nnext"},
    {"a\rb\x07\x00", "ab"},
    {"<f at 0x7f12ab34cd56>", "<f at 0x…>"},
    {"mask 0xff stays", "mask 0xff stays"},
    {"0x1234", "0x…"},
    {"3 passed in 0.12s", "3 passed in N s"},
    {"in 12s and in 3.5s.", "in N s and in N s."},
    {"in 12 steps, in 5seconds", "in 12 steps, in 5seconds"},
};

static void noise_is_taken_out(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        CR_AUTO_BUF struct cr_buf buf = {0};

        cr_buf_init(&buf, 4096);
        assert_int_equal(agt_clean_add(&buf, cases[i].text, strlen(cases[i].text)), 0);
        assert_string_equal(cr_buf_str(&buf), cases[i].clean);
    }
}

static void clean_never_reads_past_the_end(void **state)
{
    static const char text[] = "\x1b]8;;u\x1b\\ 0x12345 in 1.5s \x1b[31m";

    (void)state;
    for (size_t size = 0; size < sizeof(text); size++) {
        CR_AUTO_BUF struct cr_buf buf = {0};
        CR_AUTO_FREE char *copy = malloc(size ? size : 1);

        assert_non_null(copy);
        memcpy(copy, text, size);
        cr_buf_init(&buf, 4096);
        assert_int_equal(agt_clean_add(&buf, copy, size), 0);
        assert_null(memchr(cr_buf_str(&buf), '\x1b', buf.size));
    }
}

static void short_text_is_not_cut(void **state)
{
    CR_AUTO_BUF struct cr_buf buf = {0};

    (void)state;
    cr_buf_init(&buf, 4096);
    assert_int_equal(agt_clean_add_cut(&buf, "one\ntwo\n", 8, 8), 0);
    assert_string_equal(cr_buf_str(&buf), "one\ntwo\n");
}

static void long_text_keeps_head_and_tail_and_counts_the_rest(void **state)
{
    CR_AUTO_BUF struct cr_buf text = {0};
    CR_AUTO_BUF struct cr_buf buf = {0};
    const char *note;

    (void)state;
    cr_buf_init(&text, 65536);
    cr_buf_init(&buf, 4096);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(cr_buf_printf(&text, "line %d\n", i), 0);
    assert_int_equal(agt_clean_add_cut(&buf, cr_buf_str(&text), text.size, 200), 0);

    assert_true(buf.size <= 200);
    assert_memory_equal(cr_buf_str(&buf), "line 0\nline 1\n", 14);
    assert_string_equal(cr_buf_str(&buf) + buf.size - 9, "line 999\n");
    note = strstr(cr_buf_str(&buf), "\n[... ");
    assert_non_null(note);
    /* Kept and omitted bytes make up the whole. */
    assert_int_equal((size_t)(note + 1 - cr_buf_str(&buf)) + strtoul(note + 6, NULL, 10) +
                         strlen(strchr(note + 1, '\n') + 1),
                     text.size);
}

static void cut_never_splits_a_character(void **state)
{
    char text[901];

    (void)state;
    for (size_t i = 0; i < 300; i++)
        memcpy(text + 3 * i, "漢", 3);
    text[900] = '\0';
    for (size_t max = 0; max < 300; max++) {
        CR_AUTO_BUF struct cr_buf buf = {0};

        cr_buf_init(&buf, 4096);
        assert_int_equal(agt_clean_add_cut(&buf, text, 900, max), 0);
        assert_true(buf.size <= max);
        assert_true(cr_utf8_is_valid(cr_buf_str(&buf), buf.size));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noise_is_taken_out),
        cmocka_unit_test(clean_never_reads_past_the_end),
        cmocka_unit_test(short_text_is_not_cut),
        cmocka_unit_test(long_text_keeps_head_and_tail_and_counts_the_rest),
        cmocka_unit_test(cut_never_splits_a_character),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
