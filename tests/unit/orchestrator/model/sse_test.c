/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "orchestrator/model/sse.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <string.h>

/* What the handlers saw, as text: "E(data)", "C(data)" for one that was cut, "U(data)". */
struct log {
    struct cr_buf text;
    int answer; /* what the handlers return */
};

static int note(struct log *log, char kind, const char *data, size_t size)
{
    assert_int_equal(strlen(data), size);
    assert_int_equal(cr_buf_printf(&log->text, "%c(%s)", kind, data), 0);
    return log->answer;
}

static int on_event(void *user, char *data, size_t size, bool is_cut)
{
    return note(user, is_cut ? 'C' : 'E', data, size);
}

static int on_unframed(void *user, char *data, size_t size)
{
    return note(user, 'U', data, size);
}

static void start(struct agt_sse *sse, struct log *log, size_t max_event)
{
    const struct agt_sse_handlers handlers = {
        .on_event = on_event, .on_unframed = on_unframed, .user = log};

    *log = (struct log){0};
    cr_buf_init(&log->text, 1 << 20);
    agt_sse_init(sse, max_event, &handlers);
}

static const struct {
    const char *stream;
    const char *log;
} STREAMS[] = {
    {"data: a\n\n", "E(a)"},
    {"data: a\r\n\r\ndata: b\r\n\r\n", "E(a)E(b)"},
    {"data: a\r\rdata: b\r\r", "E(a)E(b)"},
    {"data: a\r\n\ndata: b\n\r\n", "E(a)E(b)"},
    {"data:a\n\n", "E(a)"},
    {"data:  a\n\n", "E( a)"},
    {"data: a\ndata: b\n\n", "E(a\nb)"},
    {"data: a\ndata\ndata:\ndata: b\n\n", "E(a\n\n\nb)"},
    {"data\n\n", "E()"},
    {"\xEF\xBB\xBF"
     "data: a\n\n",
     "E(a)"},
    {"data: a\n\n\xEF\xBB\xBF"
     "data: b\n\n",
     "E(a)"},
    {": ping\n\n\n:\n\ndata: a\n: x\n\n", "E(a)"},
    {"event: x\nid: 7\nretry: 5\nother\ndata: a\n\n", "E(a)"},
    {"dat: a\ndata2: b\nDATA: c\n data: d\n\n", ""},
    {"data: a", "C(a)"},
    {"data: a\n", "C(a)"},
    {"data: a\r", "C(a)"},
    {"data: \xF0\x9F\x98\x80\n\n", "E(\xF0\x9F\x98\x80)"},
    {"data: [DONE]\n\n", "E([DONE])"},
    {"", ""},
    {"\n\r\n\r", ""},
    {"{\"error\": 1}", "U({\"error\": 1}\n)"},
    {"data: a\n\n{\n  \"error\": {\n\n    \"code\": 503\n  }\n}\n",
     "E(a)U({\n  \"error\": {\n\n    \"code\": 503\n  }\n}\n)"},
    {"[{\"a\": 1}\n,\r\n{\"a\": 2}]", "U([{\"a\": 1}\n,\n{\"a\": 2}]\n)"},
    {"{\"error\": 1}\ndata: a\n\n", "U({\"error\": 1}\n)E(a)"},
    {"data: a\n{\"error\": 1}\n", "C(a)U({\"error\": 1}\n)"},
    {"  {\"error\": 1}\n", "U(  {\"error\": 1}\n)"},
    {"<html>\n<body>\n", ""},
};

static void run(const char *stream, size_t step, const char *expected)
{
    struct agt_sse sse;
    struct log log;
    size_t size = strlen(stream);

    start(&sse, &log, 1000);
    for (size_t at = 0; at < size; at += step)
        assert_int_equal(agt_sse_feed(&sse, stream + at, size - at < step ? size - at : step), 0);
    assert_int_equal(agt_sse_end(&sse), 0);
    assert_string_equal(cr_buf_str(&log.text), expected);
    agt_sse_done(&sse);
    cr_buf_done(&log.text);
}

static void streams_give_the_same_events_at_any_chunking(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(STREAMS); i++) {
        for (size_t step = 1; step <= strlen(STREAMS[i].stream) + 1; step++)
            run(STREAMS[i].stream, step, STREAMS[i].log);
    }
}

static void an_event_is_out_as_soon_as_its_blank_line_began(void **state)
{
    struct agt_sse sse;
    struct log log;

    (void)state;
    start(&sse, &log, 1000);
    assert_int_equal(agt_sse_feed(&sse, "data: a\r\n\r", 10), 0);
    assert_string_equal(cr_buf_str(&log.text), "E(a)");
    assert_int_equal(sse.lines, 2);
    agt_sse_done(&sse);
    cr_buf_done(&log.text);
}

static void too_large_stops_the_feed(void **state)
{
    static const char *const streams[] = {
        "data: 01234",              /* a line */
        ": 012345678",              /* a comment */
        "data:01234\ndata:56789\n", /* an event of lines that are short enough */
        "{012\n45678\n",            /* a bare block of such lines */
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(streams); i++) {
        struct agt_sse sse;
        struct log log;

        start(&sse, &log, 10);
        assert_int_equal(agt_sse_feed(&sse, streams[i], strlen(streams[i])), -ENOSPC);
        assert_string_equal(cr_buf_str(&log.text), "");
        agt_sse_done(&sse);
        cr_buf_done(&log.text);
    }
}

static void a_handler_stops_the_feed(void **state)
{
    struct agt_sse sse;
    struct log log;

    (void)state;
    start(&sse, &log, 1000);
    log.answer = -EBADMSG;
    assert_int_equal(agt_sse_feed(&sse, "data: a\n\ndata: b\n\n", 18), -EBADMSG);
    assert_string_equal(cr_buf_str(&log.text), "E(a)");
    agt_sse_done(&sse);
    cr_buf_done(&log.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_give_the_same_events_at_any_chunking),
        cmocka_unit_test(an_event_is_out_as_soon_as_its_blank_line_began),
        cmocka_unit_test(too_large_stops_the_feed),
        cmocka_unit_test(a_handler_stops_the_feed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
