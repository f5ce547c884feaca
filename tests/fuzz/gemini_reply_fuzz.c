/* SPDX-License-Identifier: Apache-2.0 */
#include "common/utf8.h"
#include "orchestrator/model/dialect.h"
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <string.h>

struct seen {
    size_t text;
    size_t thoughts;
};

static void on_delta(void *user, uint32_t offset, const char *text, size_t size, bool is_thought)
{
    struct seen *seen = user;
    size_t *count = is_thought ? &seen->thoughts : &seen->text;

    FUZZ_CHECK(size > 0 && offset == *count);
    FUZZ_CHECK(cr_utf8_is_valid(text, size));
    *count += size;
}

static void check_name(const char *name, size_t room)
{
    size_t size = strnlen(name, room);

    FUZZ_CHECK(size < room);
    FUZZ_CHECK(cr_utf8_is_valid(name, size));
}

static void check_verdict(const struct agt_reply *reply, const struct agt_reply_error *error,
                          int stream_error, int status)
{
    const struct agt_http_result http = {.end = stream_error < 0 ? AGT_HTTP_ABORTED : AGT_HTTP_DONE,
                                         .head.status = status};
    const struct agt_model_attempt attempt = {.names = agt_gemini_dialect.names,
                                              .reply = reply,
                                              .http = &http,
                                              .error = error,
                                              .stream_error = stream_error,
                                              .model = "m",
                                              .host = "h"};
    struct agt_verdict verdict;

    agt_verdict_judge(&attempt, &verdict);
    FUZZ_CHECK(verdict.end < AGT_MODEL_END_COUNT && verdict.repeat < AGT_REPEAT_COUNT);
    FUZZ_CHECK(verdict.end != AGT_MODEL_OK ||
               ((reply->text.size > 0 || reply->has_call) && verdict.repeat == AGT_REPEAT_NO));
    FUZZ_CHECK((verdict.end == AGT_MODEL_OK) == (verdict.message[0] == 0));
    check_name(verdict.message, sizeof(verdict.message));
}

/* Events separated by NUL, then the whole as the body of a failed request. */
static void read_all(agt_reply_reader read, const char *text, size_t size)
{
    struct agt_reply_error error = AGT_REPLY_ERROR_INIT;
    struct agt_reply reply;
    struct seen seen = {0};
    int r = 0;

    agt_reply_init(&reply, read, on_delta, &seen);
    for (size_t at = 0; at < size && r == 0;) {
        size_t length = strnlen(text + at, size - at);

        r = agt_reply_add(&reply, text + at, length, at + length == size);
        at += length + 1;
    }
    if (r == 0)
        FUZZ_CHECK(agt_reply_end(&reply) == 0);
    FUZZ_CHECK(seen.text == reply.text.size && seen.thoughts == reply.thoughts_size);
    FUZZ_CHECK((r == -EREMOTEIO) == reply.error.is_set);
    check_name(reply.finish_reason, sizeof(reply.finish_reason));
    check_name(reply.finish_message, sizeof(reply.finish_message));
    check_name(reply.model_served, sizeof(reply.model_served));
    (void)agt_reply_error_parse(text, size, &error);
    check_name(error.message, sizeof(error.message));
    check_verdict(&reply, &error, r, 200);
    check_verdict(&reply, &error, 0, 429);
    agt_reply_done(&reply);
}

/* The same for both interfaces: neither may be hurt by the other's answers. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_all(agt_gemini_read, (const char *)data, size);
    read_all(agt_openai_read, (const char *)data, size);
    return 0;
}
