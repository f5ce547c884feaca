/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/gemini-replay/hostile_cases.h"
#include "common/auto.h"
#include "common/err.h"
#include "common/utf8.h"
#include "orchestrator/model/model.h"
#include "tests/harness/test.h"
#include "tests/integration/orchestrator/model_caller.h"
#include "tests/integration/orchestrator/replay_process.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The walk over all cases of gemini-replay's hostile mode: what the client has to make of each, for
 * several seeds. CRISOL_WIRE_SEED=N walks with that seed alone, to look into one that failed.
 */

#define KEY "AIzaCanary-0123456789"
#define STARS "*********************"
#define BOTH "one two"
#define HALF "\xEF\xBF\xBD"
#define DEADLINE_MS 30000

static const unsigned long SEEDS[] = {1, 2, 3};

struct expectation {
    const char *name;
    enum agt_model_end end;
    uint32_t calls;      /* requests made; 0: any number */
    const char *text;    /* the whole answer; NULL: whatever it is */
    const char *message; /* a piece of the message; NULL: none looked for */
    bool is_heavy;       /* walked with the first seed only, and by itself */
};

#define GOOD(name)                                                                                 \
    {                                                                                              \
        name, AGT_MODEL_OK, 1, BOTH, NULL, false                                                   \
    }
#define AGAIN(name)                                                                                \
    {                                                                                              \
        name, AGT_MODEL_OK, 2, BOTH, NULL, false                                                   \
    }
#define ENDED(name, end, calls, message)                                                           \
    {                                                                                              \
        name, AGT_MODEL_##end, calls, NULL, message, false                                         \
    }

static const struct expectation expectations[] = {
    ENDED("01-blocked-SAFETY", BLOCKED, 1, "SAFETY"),
    ENDED("01-blocked-INVENTED", BLOCKED, 1, "INVENTED"),
    AGAIN("02-no-candidates"),
    ENDED("02-never-candidates", BAD_ANSWER, 2, "no candidate"),
    AGAIN("03-no-content"),
    AGAIN("04-no-parts"),
    AGAIN("05-empty-parts"),
    GOOD("06-empty-text"),
    AGAIN("07-stop-without-text"),
    ENDED("07-always-without-text", BAD_ANSWER, 2, "empty"),
    GOOD("08-many-parts"),
    GOOD("09-thoughts"),
    GOOD("10-signature"),
    {"11-cut-in-string", AGT_MODEL_TRUNCATED, 1, "{\"solution_py\": \"def f(", NULL, false},
    {"11-cut-in-escape", AGT_MODEL_TRUNCATED, 1, "{\"solution_py\": \"\\u12", NULL, false},
    {"11-cut-in-fence", AGT_MODEL_TRUNCATED, 1, "```python path=solution.py\ndef f(", NULL, false},
    AGAIN("11-eaten-by-thoughts"),
    {"12-finish-STOP", AGT_MODEL_OK, 1, "one ", NULL, false},
    {"12-finish-MAX_TOKENS", AGT_MODEL_TRUNCATED, 1, "one ", "token limit", false},
    ENDED("12-finish-SAFETY", BLOCKED, 1, "SAFETY"),
    ENDED("12-finish-PROHIBITED_CONTENT", BLOCKED, 1, "PROHIBITED_CONTENT"),
    ENDED("12-finish-BLOCKLIST", BLOCKED, 1, "BLOCKLIST"),
    ENDED("12-finish-SPII", BLOCKED, 1, "SPII"),
    ENDED("12-finish-MODEL_ARMOR", BLOCKED, 1, "MODEL_ARMOR"),
    ENDED("12-finish-LANGUAGE", BLOCKED, 1, "LANGUAGE"),
    ENDED("12-finish-MISSING_THOUGHT_SIGNATURE", BAD_REQUEST, 1, "signature"),
    {"12-finish-CONTINUATION", AGT_MODEL_TRUNCATED, 1, "one ", "continued", false},
    ENDED("12-finish-PUP_LIMITED_DISABLED", AUTH, 1, "account"),
    ENDED("12-finish-ESCALATION", AUTH, 1, "account"),
    ENDED("12-finish-RECITATION", BLOCKED, 2, "source"),
    ENDED("12-finish-FOO", BAD_ANSWER, 2, "FOO"),
    AGAIN("12-again-RECITATION"),
    AGAIN("12-again-MALFORMED_FUNCTION_CALL"),
    AGAIN("12-again-UNEXPECTED_TOOL_CALL"),
    AGAIN("12-again-MALFORMED_RESPONSE"),
    AGAIN("12-again-TOO_MANY_TOOL_CALLS"),
    AGAIN("12-again-OTHER"),
    AGAIN("12-again-IMAGE_SAFETY"),
    AGAIN("12-again-NO_IMAGE"),
    AGAIN("12-again-FINISH_REASON_UNSPECIFIED"),
    AGAIN("12-again-FOO"),
    GOOD("13-late-finish"),
    GOOD("14-no-usage"),
    GOOD("14-last-usage"),
    GOOD("14-cumulative-usage"),
    GOOD("15-usage-behind-the-end"),
    GOOD("16-bytes"),
    {"17-split-character", AGT_MODEL_OK, 1, "\xF0\x9F\x98\x80\xC3\xB1", NULL, false},
    GOOD("18-split-line-end"),
    GOOD("19-lf"),
    GOOD("19-cr"),
    GOOD("20-mark"),
    GOOD("21-comments"),
    GOOD("22-several-lines"),
    GOOD("23-done"),
    GOOD("24-no-blank-line"),
    AGAIN("25-error-event"),
    AGAIN("26-bare-error"),
    AGAIN("26-pretty-error"),
    AGAIN("26-array-error"),
    AGAIN("27-reset"),
    AGAIN("27-close"),
    AGAIN("27-cut-event"),
    AGAIN("28-html-502"),
    AGAIN("28-empty-502"),
    ENDED("28-html-413", BAD_REQUEST, 1, "too large"),
    ENDED("28-empty-413", BAD_REQUEST, 1, "too large"),
    AGAIN("28-gzip"),
    AGAIN("28-html-200"),
    AGAIN("28-odd-type"),
    GOOD("28-other-type"),
    AGAIN("29-retry-0s"),
    AGAIN("29-retry-1.5s"),
    ENDED("29-retry-86400s", QUOTA, 1, "would pass the deadline"),
    AGAIN("29-none"),
    ENDED("29-a-day", QUOTA, 1, "quota"),
    ENDED("29-limit-0", QUOTA, 1, "quota"),
    AGAIN("29-a-day-but-retry"),
    AGAIN("29-date"),
    {"30-pair", AGT_MODEL_OK, 1, "\xF0\x9F\x98\x80!", NULL, false},
    {"30-split-pair", AGT_MODEL_OK, 1, "\xF0\x9F\x98\x80!", NULL, false},
    {"30-half", AGT_MODEL_OK, 1, HALF "!", NULL, false},
    {"31-nul", AGT_MODEL_OK, 1, "one" HALF "two", NULL, false},
    {"31-line-separator", AGT_MODEL_OK, 1, "one\xE2\x80\xA8\xE2\x80\xA8two", NULL, false},
    {"31-del", AGT_MODEL_OK, 1, "one\x7Ftwo", NULL, false},
    {"31-not-utf8", AGT_MODEL_OK, 1, "one" HALF HALF HALF "two", NULL, false},
    {"32-64-mib", AGT_MODEL_BAD_ANSWER, 1, NULL, "more than is read", true},
    {"32-10-mib-line", AGT_MODEL_BAD_ANSWER, 1, NULL, "larger than is read", true},
    {"32-deep", AGT_MODEL_BAD_ANSWER, 1, NULL, NULL, false},
    {"32-blank-lines", AGT_MODEL_OK, 1, BOTH, NULL, true},
    {"32-blanks", AGT_MODEL_OK, 2, BOTH, NULL, true},
    {"32-endless", AGT_MODEL_OK, 2, BOTH, NULL, false},
    ENDED("33-redirect-301", BAD_REQUEST, 1, "redirect"),
    ENDED("33-redirect-307", BAD_REQUEST, 1, "redirect"),
    {"33-trap", AGT_MODEL_OK, 1, "one " STARS, NULL, false},
    AGAIN("34-trickle"),
    AGAIN("34-slow-head"),
    GOOD("34-continue"),
    GOOD("34-trailing"),
    GOOD("34-duplicates"),
    GOOD("34-no-index"),
    GOOD("34-numbers-as-strings"),
    ENDED("34-key-in-error", BAD_REQUEST, 1, STARS),
    ENDED("34-key-in-event", BAD_REQUEST, 1, STARS),
    {"34-key-in-text", AGT_MODEL_OK, 1, "one " STARS, NULL, false},
    ENDED("34-key-in-reason", BLOCKED, 1, STARS),
    ENDED("e-400", BAD_REQUEST, 1, "of the wire walk"),
    ENDED("e-400-key", AUTH, 1, "GEMINI_API_KEY"),
    ENDED("e-401", AUTH, 1, "GEMINI_API_KEY"),
    ENDED("e-403", AUTH, 1, "GEMINI_API_KEY"),
    ENDED("e-404", GONE, 1, "GEMINI_MODEL"),
    AGAIN("e-408"),
    AGAIN("e-409"),
    AGAIN("e-499"),
    AGAIN("e-500"),
    AGAIN("e-503"),
    AGAIN("e-504"),
};

/* One call of the walk. */
struct step {
    const struct expectation *expected;
    struct model_caller caller;
    struct agt_model_call *call;
    char model[96];
};

static const struct expectation *find_expectation(const char *name)
{
    for (size_t i = 0; i < CR_ARRAY_SIZE(expectations); i++) {
        if (strcmp(expectations[i].name, name) == 0)
            return &expectations[i];
    }
    return NULL;
}

static struct replay_process start_hostile(unsigned long seed)
{
    char flag[32];
    const char *const arguments[] = {"--hostile", flag, NULL};

    (void)snprintf(flag, sizeof(flag), "--seed=%lu", seed);
    return replay_process_start(CRISOL_GEMINI_REPLAY, arguments, "LC_ALL=C");
}

static struct agt_model *new_client(const char *scheme, uint16_t port)
{
    char base_url[64];
    const struct agt_model_options options = {
        .api_key = KEY,
        .base_url = base_url,
        .connect_timeout_ms = 2000 * test_slowness(),
        .first_byte_timeout_ms = 2000 * test_slowness(),
        .idle_timeout_ms = 2000 * test_slowness(),
        .first_retry_delay_ms = 10,
    };
    struct agt_model *client = NULL;
    struct cr_err err = CR_ERR_INIT;

    (void)snprintf(base_url, sizeof(base_url), "%s://127.0.0.1:%u", scheme, port);
    if (agt_gemini_new(&options, &client, &err) < 0)
        fail_msg("%s", err.text);
    return client;
}

static void begin(struct step *step, struct agt_model *client)
{
    model_caller_init(&step->caller);
    (void)snprintf(step->model, sizeof(step->model), HOSTILE_MODEL "%s", step->expected->name);
    step->caller.model = step->model;
    step->call = model_caller_start(&step->caller, client, "system", "prompt",
                                    DEADLINE_MS * test_slowness());
}

/* Events and errors carry them in protobuf strings. */
static bool is_utf8(const struct model_caller *caller)
{
    return cr_utf8_is_valid(caller->message, strlen(caller->message)) &&
           cr_utf8_is_valid(caller->retry_reason, strlen(caller->retry_reason));
}

static bool is_as_expected(const struct step *step)
{
    const struct expectation *expected = step->expected;
    const struct model_caller *caller = &step->caller;

    return caller->ends == 1 && caller->end == expected->end && !caller->is_misplaced &&
           (expected->calls == 0 || caller->calls == expected->calls) &&
           (!expected->text || strcmp(cr_buf_str(&caller->text), expected->text) == 0) &&
           (!expected->message || strstr(caller->message, expected->message)) && is_utf8(caller) &&
           (caller->end == AGT_MODEL_OK) == (caller->message[0] == 0);
}

static bool has_key(const struct model_caller *caller)
{
    return strstr(caller->message, KEY) || strstr(caller->retry_reason, KEY) ||
           strstr(cr_buf_str(&caller->text), KEY) || strstr(cr_buf_str(&caller->deltas), KEY);
}

/* Returns 1 when it came out otherwise than it should. */
static unsigned finish(struct step *step, struct agt_model *client, unsigned long seed)
{
    const struct model_caller *caller = &step->caller;
    unsigned problems = 0;

    model_caller_wait(&step->caller);
    if (!is_as_expected(step) || has_key(caller)) {
        problems = 1;
        print_error("seed %lu, %s: end %d (expected %d), %u calls (%u), text '%.80s', message "
                    "'%s'%s\n",
                    seed, step->expected->name, (int)caller->end, (int)step->expected->end,
                    caller->calls, step->expected->calls, cr_buf_str(&caller->text),
                    caller->message, has_key(caller) ? ", and the key came out" : "");
    }
    client->ops->unref(step->call);
    model_caller_done(&step->caller);
    return problems;
}

/* The light ones side by side, the heavy ones one by one. */
static unsigned walk(unsigned long seed, bool is_first, unsigned *walked)
{
    struct replay_process replay = start_hostile(seed);
    struct agt_model *client = new_client("http", replay.port);
    struct step *steps = calloc(CR_ARRAY_SIZE(expectations), sizeof(*steps));
    unsigned problems = 0;

    assert_non_null(steps);
    for (size_t i = 0; i < CR_ARRAY_SIZE(expectations); i++) {
        steps[i].expected = &expectations[i];
        if (!expectations[i].is_heavy)
            begin(&steps[i], client);
    }
    for (size_t i = 0; i < CR_ARRAY_SIZE(expectations); i++) {
        if (expectations[i].is_heavy && !is_first)
            continue;
        if (expectations[i].is_heavy)
            begin(&steps[i], client);
        problems += finish(&steps[i], client, seed);
        ++*walked;
    }
    free(steps);
    client->ops->free(client);
    replay_process_stop(&replay);
    return problems;
}

static void every_case_comes_out_as_the_tables_say(void **state)
{
    const char *chosen = getenv("CRISOL_WIRE_SEED");
    unsigned problems = 0;
    unsigned walked = 0;

    (void)state;
    if (chosen) {
        problems = walk(strtoul(chosen, NULL, 10), true, &walked);
    } else {
        for (size_t i = 0; i < CR_ARRAY_SIZE(SEEDS); i++)
            problems += walk(SEEDS[i], i == 0, &walked);
    }
    print_message("wire: %u cases, %u problems\n", walked, problems);
    assert_true(walked > 0);
    assert_int_equal(problems, 0);
}

static void no_case_and_no_number_is_left_out(void **state)
{
    bool is_there[HOSTILE_NUMBERS + 1] = {false};

    (void)state;
    for (size_t i = 0; i < hostile_case_count; i++) {
        const char *name = hostile_cases[i].name;
        unsigned long number = strtoul(name, NULL, 10);

        if (!find_expectation(name))
            fail_msg("%s is played and nothing is expected of it", name);
        assert_true(number <= HOSTILE_NUMBERS);
        is_there[number] = true;
    }
    assert_int_equal(hostile_case_count, CR_ARRAY_SIZE(expectations));
    for (size_t i = 1; i <= HOSTILE_NUMBERS; i++) {
        if (!is_there[i])
            fail_msg("no case has the number %zu", i);
    }
}

/* The provider charges for what it told of, whatever became of the answer. */
static void usage_counts_every_request(void **state)
{
    struct replay_process replay = start_hostile(1);
    struct agt_model *client = new_client("http", replay.port);
    struct model_caller caller;

    (void)state;
    model_caller_init(&caller);
    caller.model = HOSTILE_MODEL "11-eaten-by-thoughts";
    model_caller_run(&caller, client, NULL, "prompt", DEADLINE_MS);
    assert_int_equal(caller.end, AGT_MODEL_OK);
    assert_int_equal(caller.calls, 2);
    assert_int_equal(caller.usage.prompt_tokens, 7 + 7);
    assert_int_equal(caller.usage.answer_tokens, 1 + 3);
    assert_int_equal(caller.usage.thought_tokens, 3071);
    assert_int_equal(caller.usage.total_tokens, 3079 + 10);
    model_caller_done(&caller);
    client->ops->free(client);
    replay_process_stop(&replay);
}

static void usage_is_the_last_that_was_told(void **state)
{
    static const char *const models[] = {
        HOSTILE_MODEL "14-cumulative-usage", HOSTILE_MODEL "15-usage-behind-the-end",
        HOSTILE_MODEL "34-numbers-as-strings", HOSTILE_MODEL "14-no-usage"};
    struct replay_process replay = start_hostile(1);
    struct agt_model *client = new_client("http", replay.port);

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(models); i++) {
        bool has_usage = i + 1 < CR_ARRAY_SIZE(models);
        struct model_caller caller;

        model_caller_init(&caller);
        caller.model = models[i];
        model_caller_run(&caller, client, NULL, "prompt", DEADLINE_MS);
        assert_int_equal(caller.usage.prompt_tokens, has_usage ? 7 : 0);
        assert_int_equal(caller.usage.answer_tokens, has_usage ? 3 : 0);
        assert_int_equal(caller.usage.total_tokens, has_usage ? 10 : 0);
        model_caller_done(&caller);
    }
    client->ops->free(client);
    replay_process_stop(&replay);
}

/* A server that takes the connection and never shakes hands. */
static void a_handshake_that_stalls_is_given_up(void **state)
{
    struct replay_process replay = start_hostile(1);
    struct agt_model *client = new_client("https", replay.port);
    struct model_caller caller;

    (void)state;
    model_caller_init(&caller);
    model_caller_run(&caller, client, NULL, "prompt", 10000 * test_slowness());
    assert_true(caller.end == AGT_MODEL_UNAVAILABLE || caller.end == AGT_MODEL_DEADLINE);
    model_caller_done(&caller);
    client->ops->free(client);
    replay_process_stop(&replay);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_case_and_no_number_is_left_out),
        cmocka_unit_test(every_case_comes_out_as_the_tables_say),
        cmocka_unit_test(usage_is_the_last_that_was_told),
        cmocka_unit_test(usage_counts_every_request),
        cmocka_unit_test(a_handshake_that_stalls_is_given_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
