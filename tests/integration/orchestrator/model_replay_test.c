/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "orchestrator/model/model.h"
#include "tests/harness/test.h"
#include "tests/integration/orchestrator/model_caller.h"
#include "tests/integration/orchestrator/replay_process.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <sys/socket.h>

/* The real client against the real gemini-replay, over real HTTP. */

#define SCRIPT(name) CRISOL_SCRIPTS_DIR "/" name
#define PLANNER "You are the planner"
#define GENERATOR "You are the generator"

static struct replay_process replay_start(const char *delay, const char *key)
{
    char delay_flag[32];
    char setting[64];
    const char *const arguments[] = {"--script=" SCRIPT("lru_cache.json") "," SCRIPT("never.json"),
                                     delay_flag, NULL};

    (void)snprintf(delay_flag, sizeof(delay_flag), "--delay-ms=%s", delay);
    (void)snprintf(setting, sizeof(setting), "GEMINI_REPLAY_KEY=%s", key);
    return replay_process_start(CRISOL_GEMINI_REPLAY, arguments, setting);
}

static struct agt_model *client_new(const struct replay_process *replay, const char *key,
                                    const char *model)
{
    char base_url[64];
    const struct agt_model_options options = {
        .api_key = key, .base_url = base_url, .model = model, .first_retry_delay_ms = 10};
    struct agt_model *client = NULL;
    struct cr_err err = CR_ERR_INIT;

    (void)snprintf(base_url, sizeof(base_url), "http://127.0.0.1:%u", replay->port);
    if (agt_gemini_new(&options, &client, &err) < 0)
        fail_msg("%s", err.text);
    return client;
}

static void replay_streams_a_whole_answer(void **state)
{
    int fds = test_count_fds();
    struct replay_process replay = replay_start("0", "");
    struct agt_model *client = client_new(&replay, "some-key-1234", NULL);
    struct model_caller caller;

    (void)state;
    model_caller_init(&caller);
    model_caller_run(&caller, client, GENERATOR ".", "TASK: an LRU cache\n", 10000);

    assert_int_equal(caller.end, AGT_MODEL_OK);
    assert_string_equal(caller.message, "");
    assert_string_equal(caller.served, "gemini-replay (scripted)");
    assert_string_equal(caller.finish_reason, "STOP");
    assert_true(caller.delta_count > 10);
    assert_false(caller.is_misplaced);
    assert_string_equal(cr_buf_str(&caller.deltas), cr_buf_str(&caller.text));
    assert_non_null(strstr(cr_buf_str(&caller.text), "```python path=test_solution.py\n"));
    assert_true(caller.usage.answer_tokens > 100);
    assert_int_equal(caller.usage.total_tokens,
                     caller.usage.prompt_tokens + caller.usage.answer_tokens);
    assert_int_equal(caller.calls, 1);
    model_caller_done(&caller);
    client->ops->free(client);
    replay_process_stop(&replay);
    assert_int_equal(test_count_fds(), fds);
}

static struct agt_model *openai_new(const struct replay_process *replay, const char *key)
{
    char base_url[64];
    const struct agt_model_options options = {
        .api_key = key, .base_url = base_url, .model = "qwen:7b", .first_retry_delay_ms = 10};
    struct agt_model *client = NULL;
    struct cr_err err = CR_ERR_INIT;

    (void)snprintf(base_url, sizeof(base_url), "http://127.0.0.1:%u/v1", replay->port);
    if (agt_openai_new(&options, &client, &err) < 0)
        fail_msg("%s", err.text);
    return client;
}

/* The other interface: the same answer, without a key where the server wants none. */
static void chat_completions_give_the_same_answer(void **state)
{
    static const char *const keys[][2] = {{"", NULL}, {"the-right-key", "the-right-key"}};

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(keys); i++) {
        struct replay_process replay = replay_start("0", keys[i][0]);
        struct agt_model *client = openai_new(&replay, keys[i][1]);
        struct model_caller caller;

        assert_true(client->ops->is_configured(client));
        model_caller_init(&caller);
        model_caller_run(&caller, client, GENERATOR ".", "TASK: an LRU cache\n", 10000);
        if (caller.end != AGT_MODEL_OK)
            fail_msg("%s", caller.message);
        assert_string_equal(caller.finish_reason, "stop");
        assert_true(caller.delta_count > 10);
        assert_string_equal(cr_buf_str(&caller.deltas), cr_buf_str(&caller.text));
        assert_non_null(strstr(cr_buf_str(&caller.text), "```python path=test_solution.py\n"));
        assert_true(caller.usage.answer_tokens > 100);
        model_caller_done(&caller);
        client->ops->free(client);
        replay_process_stop(&replay);
    }
}

/* What on_list told, handed to the test's thread. */
struct listed {
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t has_come;
    bool is_there;
    enum agt_model_end end;
    size_t count;
    char first[64];
    char message[256];
};

static void on_list(void *user, const struct agt_model_list *list)
{
    struct listed *listed = user;

    (void)pthread_mutex_lock(&listed->lock);
    listed->end = list->end;
    listed->count = list->count;
    (void)snprintf(listed->first, sizeof(listed->first), "%s",
                   list->count > 0 ? list->names[0] : "");
    (void)snprintf(listed->message, sizeof(listed->message), "%s", list->message);
    listed->is_there = true;
    (void)pthread_cond_signal(&listed->has_come);
    (void)pthread_mutex_unlock(&listed->lock);
}

static void list_models(struct agt_model *client, struct listed *listed)
{
    *listed =
        (struct listed){.lock = PTHREAD_MUTEX_INITIALIZER, .has_come = PTHREAD_COND_INITIALIZER};
    assert_int_equal(
        client->ops->list(client, cr_clock_mono_ns() + 10 * CR_NS_PER_S, on_list, listed, NULL), 0);
    (void)pthread_mutex_lock(&listed->lock);
    while (!listed->is_there)
        (void)pthread_cond_wait(&listed->has_come, &listed->lock);
    (void)pthread_mutex_unlock(&listed->lock);
    client->ops->free(client);
}

static void models_are_listed_by_both_interfaces(void **state)
{
    struct replay_process replay = replay_start("0", "the-right-key");
    struct listed listed;

    (void)state;
    list_models(client_new(&replay, "the-right-key", NULL), &listed);
    assert_int_equal(listed.end, AGT_MODEL_OK);
    assert_int_equal(listed.count, 3);
    assert_string_equal(listed.first, "gemini-2.5-flash");
    list_models(openai_new(&replay, "the-right-key"), &listed);
    assert_int_equal(listed.end, AGT_MODEL_OK);
    assert_string_equal(listed.first, "gemini-2.5-flash");
    list_models(client_new(&replay, "the-wrong-key", NULL), &listed);
    assert_int_equal(listed.end, AGT_MODEL_AUTH);
    assert_non_null(strstr(listed.message, "GEMINI_API_KEY"));
    assert_null(strstr(listed.message, "the-wrong-key"));
    replay_process_stop(&replay);
}

static void chat_completions_name_their_own_settings(void **state)
{
    struct replay_process replay = replay_start("0", "the-right-key");
    struct agt_model *client = openai_new(&replay, "the-wrong-key");
    struct model_caller caller;

    (void)state;
    model_caller_init(&caller);
    model_caller_run(&caller, client, PLANNER, "TASK: an LRU cache", 10000);
    assert_int_equal(caller.end, AGT_MODEL_AUTH);
    assert_non_null(strstr(caller.message, "OPENAI_API_KEY"));
    assert_null(strstr(caller.message, "the-wrong-key"));
    model_caller_done(&caller);
    client->ops->free(client);
    replay_process_stop(&replay);
}

static void replay_tells_attempts_apart_by_the_prompt(void **state)
{
    static const char *const prompts[] = {"TASK: an LRU cache\n",
                                          "TASK: an LRU cache\n\nATTEMPT 1 FAILED\n"};
    struct replay_process replay = replay_start("0", "");
    struct agt_model *client = client_new(&replay, "some-key-1234", NULL);

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(prompts); i++) {
        struct model_caller caller;

        model_caller_init(&caller);
        model_caller_run(&caller, client, GENERATOR, prompts[i], 10000);
        assert_int_equal(caller.end, AGT_MODEL_OK);
        assert_int_equal(
            strstr(cr_buf_str(&caller.text), "        return self._items[key]") != NULL, i == 1);
        model_caller_done(&caller);
    }
    client->ops->free(client);
    replay_process_stop(&replay);
}

static void cancel_ends_a_stream_once(void **state)
{
    struct replay_process replay = replay_start("200", "");
    struct agt_model *client = client_new(&replay, "some-key-1234", NULL);
    struct model_caller caller;
    struct agt_model_call *call;

    (void)state;
    model_caller_init(&caller);
    call = model_caller_start(&caller, client, PLANNER, "TASK: an LRU cache", 60000);
    model_caller_wait_for_text(&caller);
    client->ops->cancel(call);
    client->ops->cancel(call);
    model_caller_wait(&caller);

    assert_int_equal(caller.end, AGT_MODEL_CANCELLED);
    assert_int_equal(caller.retries, 0);
    assert_int_equal(caller.text.size, 0);
    client->ops->cancel(call);
    client->ops->unref(call);
    client->ops->free(client);
    assert_int_equal(caller.ends, 1);
    model_caller_done(&caller);
    replay_process_stop(&replay);
}

static void free_cancels_what_is_running(void **state)
{
    int fds = test_count_fds();
    struct replay_process replay = replay_start("200", "");
    struct agt_model *client = client_new(&replay, "some-key-1234", NULL);
    const struct agt_model_ops *ops = client->ops;
    struct model_caller caller;
    struct agt_model_call *call;

    (void)state;
    model_caller_init(&caller);
    call = model_caller_start(&caller, client, PLANNER, "TASK: an LRU cache", 60000);
    model_caller_wait_for_text(&caller);
    ops->free(client);

    assert_int_equal(caller.ends, 1);
    assert_int_equal(caller.end, AGT_MODEL_CANCELLED);
    ops->cancel(call);
    ops->unref(call);
    model_caller_done(&caller);
    replay_process_stop(&replay);
    assert_int_equal(test_count_fds(), fds);
}

static void deadline_ends_a_slow_stream(void **state)
{
    struct replay_process replay = replay_start("500", "");
    struct agt_model *client = client_new(&replay, "some-key-1234", NULL);
    struct model_caller caller;

    (void)state;
    model_caller_init(&caller);
    model_caller_run(&caller, client, PLANNER, "TASK: an LRU cache", 300);

    assert_int_equal(caller.end, AGT_MODEL_DEADLINE);
    assert_true(caller.elapsed_ms >= 300 && caller.elapsed_ms < 30000);
    assert_int_equal(caller.calls, 1);
    model_caller_done(&caller);
    client->ops->free(client);
    replay_process_stop(&replay);
}

static void a_wrong_key_is_told_without_the_key(void **state)
{
    struct replay_process replay = replay_start("0", "the-right-key");
    struct agt_model *client = client_new(&replay, "the-wrong-key", NULL);
    struct model_caller caller;

    (void)state;
    model_caller_init(&caller);
    model_caller_run(&caller, client, PLANNER, "TASK: an LRU cache", 10000);

    assert_int_equal(caller.end, AGT_MODEL_AUTH);
    assert_int_equal(caller.calls, 1);
    assert_non_null(strstr(caller.message, "GEMINI_API_KEY"));
    assert_null(strstr(caller.message, "the-wrong-key"));
    model_caller_done(&caller);
    client->ops->free(client);
    replay_process_stop(&replay);
}

static void a_removed_model_says_the_way_out(void **state)
{
    struct replay_process replay = replay_start("0", "");
    struct agt_model *client = client_new(&replay, "some-key-1234", "palm-2");
    struct model_caller caller;

    (void)state;
    model_caller_init(&caller);
    model_caller_run(&caller, client, PLANNER, "TASK: an LRU cache", 10000);

    assert_int_equal(caller.end, AGT_MODEL_GONE);
    assert_non_null(strstr(caller.message, "'palm-2'"));
    assert_non_null(strstr(caller.message, "GEMINI_MODEL"));
    assert_non_null(strstr(caller.message, "/models"));
    model_caller_done(&caller);
    client->ops->free(client);
    replay_process_stop(&replay);
}

static void a_request_off_the_script_is_refused(void **state)
{
    struct replay_process replay = replay_start("0", "");
    struct agt_model *client = client_new(&replay, "some-key-1234", NULL);
    struct model_caller caller;

    (void)state;
    model_caller_init(&caller);
    model_caller_run(&caller, client, PLANNER, "TASK: write a compiler", 10000);

    assert_int_equal(caller.end, AGT_MODEL_BAD_REQUEST);
    assert_non_null(strstr(caller.message, "only plays its scripts"));
    model_caller_done(&caller);
    client->ops->free(client);
    replay_process_stop(&replay);
}

static void many_calls_share_the_loop(void **state)
{
    enum {
        CALLS = 200
    };

    struct replay_process replay = replay_start("20", "");
    struct agt_model *client = client_new(&replay, "some-key-1234", NULL);
    struct model_caller *callers = calloc(CALLS, sizeof(*callers));
    struct agt_model_call *calls[CALLS];

    (void)state;
    assert_non_null(callers);
    for (size_t i = 0; i < CALLS; i++) {
        model_caller_init(&callers[i]);
        calls[i] = model_caller_start(&callers[i], client, i % 2 ? PLANNER : GENERATOR,
                                      "TASK: an LRU cache", 20000);
    }
    for (size_t i = 0; i < CALLS; i++)
        model_caller_wait(&callers[i]);
    for (size_t i = 0; i < CALLS; i++) {
        assert_int_equal(callers[i].end, AGT_MODEL_OK);
        assert_int_equal(callers[i].ends, 1);
        assert_false(callers[i].is_misplaced);
        assert_string_equal(cr_buf_str(&callers[i].text), cr_buf_str(&callers[i % 2].text));
        client->ops->unref(calls[i]);
    }
    for (size_t i = 0; i < CALLS; i++)
        model_caller_done(&callers[i]);
    free(callers);
    client->ops->free(client);
    replay_process_stop(&replay);
}

static void no_fd_of_the_client_survives_an_exec(void **state)
{
    struct replay_process replay = replay_start("200", "");
    struct agt_model *client = client_new(&replay, "some-key-1234", NULL);
    struct model_caller caller;
    struct agt_model_call *call;

    (void)state;
    model_caller_init(&caller);
    call = model_caller_start(&caller, client, PLANNER, "TASK: an LRU cache", 60000);
    model_caller_wait_for_text(&caller);
    for (int fd = STDERR_FILENO + 1; fd < 256; fd++) {
        int type;
        socklen_t size = sizeof(type);
        int flags = fcntl(fd, F_GETFD);

        if (flags >= 0 && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0)
            assert_int_equal(flags, FD_CLOEXEC);
    }
    client->ops->unref(call);
    client->ops->free(client);
    model_caller_done(&caller);
    replay_process_stop(&replay);
}

#define SECRET_SIZE 24
#define SECRET_MASK 0x55

/* Counts a secret, of which only the masked form is at hand, in memory that may be anybody's. */
__attribute__((noinline, no_sanitize("address", "thread"))) static int
count_in(const volatile uint8_t *start, const volatile uint8_t *end, const uint8_t *masked)
{
    int count = 0;

    for (const volatile uint8_t *at = start; at + SECRET_SIZE <= end; at++) {
        size_t i = 0;

        while (i < SECRET_SIZE && (at[i] ^ SECRET_MASK) == masked[i])
            i++;
        count += i == SECRET_SIZE;
    }
    return count;
}

static int count_in_memory(const uint8_t *masked)
{
    CR_AUTO_FCLOSE FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    int count = 0;

    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps)) {
        uintptr_t start;
        uintptr_t end;

        /* Shadow memory of a sanitizer is large and holds no bytes of ours. */
        if (sscanf(line, "%lx-%lx rw-p", &start, &end) == 2 && strstr(line, " rw-p ") &&
            end - start < (64u << 20))
            count +=
                count_in((const volatile uint8_t *)start, (const volatile uint8_t *)end, masked);
    }
    return count;
}

static void the_key_leaves_no_copy_behind(void **state)
{
    struct replay_process replay = replay_start("0", "");
    struct agt_model *client;
    uint8_t masked[SECRET_SIZE];
    char key[SECRET_SIZE + 1] = {0};

    (void)state;
    for (size_t i = 0; i < SECRET_SIZE; i++) {
        masked[i] = (uint8_t)(('A' + (i * 7 + (size_t)getpid()) % 26) ^ SECRET_MASK);
        key[i] = (char)(masked[i] ^ SECRET_MASK);
    }
    client = client_new(&replay, key, NULL);
    explicit_bzero(key, sizeof(key));
    for (int i = 0; i < 5; i++) {
        struct model_caller caller;

        model_caller_init(&caller);
        model_caller_run(&caller, client, PLANNER, "TASK: an LRU cache", 10000);
        assert_int_equal(caller.end, AGT_MODEL_OK);
        model_caller_done(&caller);
    }
    assert_true(count_in_memory(masked) > 0); /* the search finds what is there */

    client->ops->free(client);
    assert_int_equal(count_in_memory(masked), 0);
    replay_process_stop(&replay);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replay_streams_a_whole_answer),
        cmocka_unit_test(chat_completions_give_the_same_answer),
        cmocka_unit_test(chat_completions_name_their_own_settings),
        cmocka_unit_test(models_are_listed_by_both_interfaces),
        cmocka_unit_test(replay_tells_attempts_apart_by_the_prompt),
        cmocka_unit_test(cancel_ends_a_stream_once),
        cmocka_unit_test(free_cancels_what_is_running),
        cmocka_unit_test(deadline_ends_a_slow_stream),
        cmocka_unit_test(a_wrong_key_is_told_without_the_key),
        cmocka_unit_test(a_removed_model_says_the_way_out),
        cmocka_unit_test(a_request_off_the_script_is_refused),
        cmocka_unit_test(many_calls_share_the_loop),
        cmocka_unit_test(no_fd_of_the_client_survives_an_exec),
        cmocka_unit_test(the_key_leaves_no_copy_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
