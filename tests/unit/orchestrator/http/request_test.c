/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "orchestrator/http/problem.h"
#include "orchestrator/http/request.h"
#include "rpc/tokens.h"
#include "tests/harness/test.h"

#include <string.h>

static const struct agt_request_rules open_rules = {.allowed_hosts = "localhost,127.0.0.1,[::1]"};

/* A request that is let in, for each case to break. */
static struct agt_request good_post(const char *url)
{
    struct agt_request request = {.method = "POST", .raw_url = url};

    agt_request_note(&request, "host", "localhost:8000");
    agt_request_note(&request, "Content-Type", "application/json");
    agt_request_note(&request, "CONTENT-LENGTH", "2");
    return request;
}

static int status_of(const struct agt_request *request, const struct agt_request_rules *rules)
{
    const struct agt_route *route = NULL;
    struct agt_problem problem = {0};

    if (agt_request_check(request, rules, &route, &problem)) {
        assert_non_null(route);
        return 200;
    }
    assert_null(route);
    assert_true(problem.status.message[0] != '\0');
    return problem.http_status;
}

struct header_case {
    const char *name; /* added to a good request */
    const char *value;
    int expected;
};

static void check_headers(const struct header_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct agt_request request = good_post("/api/v1/generate");

        agt_request_note(&request, cases[i].name, cases[i].value);
        if (status_of(&request, &open_rules) != cases[i].expected)
            fail_msg("%s: %s is not answered %d", cases[i].name, cases[i].value, cases[i].expected);
    }
}

static void doubled_and_smuggled_headers_are_refused(void **state)
{
    static const struct header_case cases[] = {
        {"Host", "localhost", 400},
        {"Content-Length", "2", 400},
        {"Content-Length", "3", 400},
        {"Transfer-Encoding", "chunked", 400},
        {"Transfer-Encoding", "xchunked", 400},
        {"Transfer-Encoding", "gzip, chunked", 400},
        {"Content-Type", "application/json", 400},
        {"Content-Encoding", "gzip", 415},
        {"Content-Encoding", "identity", 200},
        {"X-Other", "anything", 200},
    };

    (void)state;
    check_headers(cases, CR_ARRAY_SIZE(cases));
}

static void targets_that_are_no_plain_path_are_refused(void **state)
{
    static const struct {
        const char *url;
        int expected;
    } cases[] = {
        {"/api/v1/generate", 200},
        {"/api/v1/generate?x=1", 422},
        {"http://localhost/api/v1/generate", 400},
        {"*", 400},
        {"", 400},
        {"/api/v1/generate%00", 400},
        {"/api%2fv1/generate", 400},
        {"/api%2Fv1/generate", 400},
        {"/api/v1/generate%5c", 400},
        {"/api/v1/generate%zz", 400},
        {"/api/v1/generate%4", 400},
        {"/api/v1/gen\x80rate", 400},
        {"/api/v1/../v1/generate", 404},
        {"//api/v1/generate", 404},
        {"/api/v1/generate/", 404},
        {"/api/v1/%67enerate", 404},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        struct agt_request request = good_post(cases[i].url);

        if (status_of(&request, &open_rules) != cases[i].expected)
            fail_msg("%s is not answered %d", cases[i].url, cases[i].expected);
    }
}

/* NULL: it is let in. */
static const struct {
    const char *method;
    const char *url;
    const char *field;
} queries[] = {
    {"GET", "/api/v1/runs", NULL},
    {"GET", "/api/v1/runs?", NULL},
    {"GET", "/api/v1/runs?&&", NULL},
    {"GET", "/api/v1/runs?page_size=1", NULL},
    {"GET", "/api/v1/runs?page_token=1&page_size=1", NULL},
    {"GET", "/api/v1/runs?page_size", NULL},
    {"GET", "/api/v1/runs?page=1", "\"page\"]"},
    {"GET", "/api/v1/runs?page_size=1&Page_Token=2", "\"Page_Token\"]"},
    {"GET", "/api/v1/runs?size=1", "\"size\"]"},
    {"GET", "/api/v1/runs?page%5Fsize=1", "\"page%5Fsize\"]"},
    {"GET", "/api/v1/runs?a[0].b=1", "\"a[0].b\"]"},
    {"GET", "/api/v1/graph.dot?run_id=1", NULL},
    {"GET", "/api/v1/graph.dot?runid=1", "\"runid\"]"},
    {"GET", "/api/v1/models?x", "\"x\"]"},
    {"DELETE", "/api/v1/runs/1?force=1", "\"force\"]"},
    {"HEAD", "/api/v1/runs?x=1", "\"x\"]"},
    {"OPTIONS", "/api/v1/runs?page_size=1", NULL},
    {"GET", "/livez?x=1", NULL},
    {"GET", "/api/v1/health?x=1", NULL},
    {"GET", "/metrics?x=1", NULL},
    {"GET", "/docs?x=1", NULL},
};

static void unknown_query_parameters_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(queries); i++) {
        struct agt_request request = {.method = queries[i].method, .raw_url = queries[i].url};
        const struct agt_route *route = NULL;
        struct agt_problem problem = {0};
        bool is_good;

        agt_request_note(&request, "Host", "localhost");
        is_good = agt_request_check(&request, &open_rules, &route, &problem);
        if (is_good != !queries[i].field)
            fail_msg("%s %s", queries[i].method, queries[i].url);
        if (is_good)
            continue;
        assert_int_equal(problem.http_status, 422);
        assert_int_equal(problem.status.violation_count, 1);
        assert_string_equal(problem.status.violations[0].field, queries[i].field);
        assert_string_equal(problem.place, "query");
    }
}

static void a_judge_is_told_of_them_with_its_own_status(void **state)
{
    struct agt_request request = {.method = "GET", .raw_url = "/api/v2/runtimes?x=1"};

    (void)state;
    agt_request_note(&request, "Host", "localhost");
    assert_int_equal(status_of(&request, &open_rules), 400);
}

static void only_listed_hosts_are_answered(void **state)
{
    static const struct {
        const char *host;
        int expected;
    } cases[] = {
        {"localhost", 200},      {"LocalHost:8000", 200},
        {"127.0.0.1:1", 200},    {"[::1]:8000", 200},
        {"[::1]", 200},          {"evil.com", 421},
        {"localhost.evil", 421}, {"localhost:8000:1", 400},
        {"localhost:80x", 400},  {"", 400},
        {"[::1", 400},           {"127.0.0.1.nip.io:8000", 421},
        {":8000", 400},          {"evil.com,localhost", 421},
        {"local", 421},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        struct agt_request request = {.method = "GET", .raw_url = "/livez"};

        agt_request_note(&request, "Host", cases[i].host);
        if (status_of(&request, &open_rules) != cases[i].expected)
            fail_msg("Host '%s' is not answered %d", cases[i].host, cases[i].expected);
    }
}

static void a_missing_host_is_refused(void **state)
{
    struct agt_request request = {.method = "GET", .raw_url = "/livez"};

    (void)state;
    assert_int_equal(status_of(&request, &open_rules), 400);
}

static void a_star_allows_every_host(void **state)
{
    const struct agt_request_rules rules = {.allowed_hosts = "*"};
    struct agt_request request = {.method = "GET", .raw_url = "/livez"};

    (void)state;
    agt_request_note(&request, "Host", "anything.example:99");
    assert_int_equal(status_of(&request, &rules), 200);
}

static void host_lists_may_hold_spaces(void **state)
{
    const struct agt_request_rules rules = {.allowed_hosts = "a.example, b.example"};
    struct agt_request request = {.method = "GET", .raw_url = "/livez"};

    (void)state;
    agt_request_note(&request, "Host", "b.example");
    assert_int_equal(status_of(&request, &rules), 200);
}

static int status_of_type(const char *type)
{
    struct agt_request request = {.method = "POST", .raw_url = "/api/v1/execute"};

    agt_request_note(&request, "Host", "localhost");
    agt_request_note(&request, "Content-Length", "2");
    if (type)
        agt_request_note(&request, "Content-Type", type);
    return status_of(&request, &open_rules);
}

static void only_json_bodies_are_taken(void **state)
{
    (void)state;
    assert_int_equal(status_of_type("application/json"), 200);
    assert_int_equal(status_of_type("Application/JSON; charset=UTF-8"), 200);
    assert_int_equal(status_of_type("application/json;charset=\"utf-8\""), 200);
    assert_int_equal(status_of_type(NULL), 415);
    assert_int_equal(status_of_type("text/plain"), 415);
    assert_int_equal(status_of_type("application/x-www-form-urlencoded"), 415);
    assert_int_equal(status_of_type("application/jsonx"), 415);
    assert_int_equal(status_of_type("text/plain; application/json"), 415);
    assert_int_equal(status_of_type("application/json; charset=latin1"), 415);
}

static int status_of_length(const char *url, const char *length)
{
    struct agt_request request = {.method = "POST", .raw_url = url};

    agt_request_note(&request, "Host", "localhost");
    agt_request_note(&request, "Content-Type", "application/json");
    if (length)
        agt_request_note(&request, "Content-Length", length);
    return status_of(&request, &open_rules);
}

static void body_lengths_are_judged_before_the_body(void **state)
{
    (void)state;
    assert_int_equal(status_of_length("/api/v1/generate", NULL), 411);
    assert_int_equal(status_of_length("/api/v1/generate", "1048576"), 200);
    assert_int_equal(status_of_length("/api/v1/generate", "1048577"), 413);
    assert_int_equal(status_of_length("/api/v1/execute", "4194304"), 200);
    assert_int_equal(status_of_length("/api/v1/execute", "4194305"), 413);
    assert_int_equal(status_of_length("/api/v1/execute", "99999999999999999999999"), 413);
    assert_int_equal(status_of_length("/api/v1/execute", "+5"), 400);
    assert_int_equal(status_of_length("/api/v1/execute", "-5"), 400);
    assert_int_equal(status_of_length("/api/v1/execute", "5 5"), 400);
}

static void chunked_bodies_need_no_length(void **state)
{
    struct agt_request request = {.method = "POST", .raw_url = "/api/v1/stream"};

    (void)state;
    agt_request_note(&request, "Host", "localhost");
    agt_request_note(&request, "Content-Type", "application/json");
    agt_request_note(&request, "Transfer-Encoding", "Chunked");
    assert_int_equal(status_of(&request, &open_rules), 200);
}

static void a_get_with_a_body_is_refused(void **state)
{
    struct agt_request request = good_post("/livez");

    (void)state;
    request.method = "GET";
    assert_int_equal(status_of(&request, &open_rules), 400);
}

static void wrong_methods_are_told_the_right_ones(void **state)
{
    const struct agt_route *route = NULL;
    struct agt_problem problem = {0};
    struct agt_request request = good_post("/api/v1/generate");

    (void)state;
    request.method = "GET";
    assert_false(agt_request_check(&request, &open_rules, &route, &problem));
    assert_int_equal(problem.http_status, 405);
    assert_string_equal(problem.allow, "POST, OPTIONS");
    request.method = "OPTIONS";
    request.content_length.value = "0";
    assert_int_equal(status_of(&request, &open_rules), 200);
}

static void unknown_paths_are_told_where_the_routes_are(void **state)
{
    const struct agt_route *route = NULL;
    struct agt_problem problem = {0};
    struct agt_request request = good_post("/nothing");

    (void)state;
    assert_false(agt_request_check(&request, &open_rules, &route, &problem));
    assert_int_equal(problem.http_status, 404);
    assert_non_null(strstr(problem.status.message, "GET / names"));
}

#define TOKEN "s3cret-s3cret-s3cret"

static int status_with(const char *url, const char *authorization, bool is_certified)
{
    const struct agt_request_rules rules = {.allowed_hosts = "localhost",
                                            .tokens = rpc_tokens_new()};
    struct agt_request request = good_post(url);
    char caller[64] = "ip:192.0.2.1";
    int status;

    assert_int_equal(rpc_tokens_load(rules.tokens, "ci " TOKEN, sizeof("ci " TOKEN) - 1, NULL), 0);
    request.caller = caller;
    request.is_certified = is_certified;
    if (strcmp(url, "/livez") == 0) {
        request.method = "GET";
        request.content_length.value = "0";
    }
    if (authorization)
        agt_request_note(&request, "Authorization", authorization);
    status = status_of(&request, &rules);
    assert_string_equal(caller, status == 200 && authorization ? "token:ci" : "ip:192.0.2.1");
    (void)rpc_tokens_free(rules.tokens);
    return status;
}

static int status_with_token(const char *url, const char *authorization)
{
    return status_with(url, authorization, false);
}

static void a_token_is_asked_of_the_interface_but_not_of_probes(void **state)
{
    (void)state;
    assert_int_equal(status_with_token("/api/v1/execute", "Bearer " TOKEN), 200);
    assert_int_equal(status_with_token("/api/v1/execute", NULL), 401);
    assert_int_equal(status_with_token("/api/v1/execute", "Bearer s3cret-s3cret-s3cre"), 401);
    assert_int_equal(status_with_token("/api/v1/execute", "Bearer s3cret-s3cret-s3creT"), 401);
    assert_int_equal(status_with_token("/api/v1/execute", "Bearer " TOKEN "2"), 401);
    assert_int_equal(status_with_token("/api/v1/execute", "Basic " TOKEN), 401);
    assert_int_equal(status_with_token("/livez", NULL), 200);
    assert_int_equal(status_with("/api/v1/execute", NULL, true), 200);
}

/* A browser asks without one whether it may send one. */
static void an_options_request_needs_no_token(void **state)
{
    const struct agt_request_rules rules = {.allowed_hosts = "localhost",
                                            .tokens = rpc_tokens_new()};
    struct agt_request request = {.method = "OPTIONS", .raw_url = "/api/v1/execute"};

    (void)state;
    agt_request_note(&request, "Host", "localhost");
    assert_int_equal(status_of(&request, &rules), 200);
    (void)rpc_tokens_free(rules.tokens);
}

static const char *origin_with(const char *allowed, const char *origin)
{
    const struct agt_request_rules rules = {.allowed_hosts = "*", .allowed_origins = allowed};
    struct agt_request request = {.method = "GET", .raw_url = "/"};

    if (origin)
        agt_request_note(&request, "Origin", origin);
    return agt_request_origin(&request, &rules);
}

static void only_listed_origins_may_read(void **state)
{
    static const char list[] = "https://a.example,http://localhost:3000";

    (void)state;
    assert_null(origin_with(NULL, "https://a.example"));
    assert_null(origin_with(list, NULL));
    assert_null(origin_with(list, ""));
    assert_null(origin_with(list, "null"));
    assert_null(origin_with(list, "http://a.example"));
    assert_null(origin_with(list, "https://a.example.evil"));
    assert_null(origin_with(list, "https://a.example,http://localhost:3000"));
    assert_string_equal(origin_with(list, "https://a.example"), "https://a.example");
    assert_string_equal(origin_with(list, "http://localhost:3000"), "http://localhost:3000");
    assert_string_equal(origin_with("*", "https://any.example"), "*");
}

static void two_origins_are_none(void **state)
{
    const struct agt_request_rules rules = {.allowed_hosts = "*", .allowed_origins = "*"};
    struct agt_request request = {.method = "GET", .raw_url = "/"};

    (void)state;
    agt_request_note(&request, "Origin", "https://a.example");
    agt_request_note(&request, "Origin", "https://b.example");
    assert_null(agt_request_origin(&request, &rules));
}

static void accept_headers_choose_events(void **state)
{
    (void)state;
    assert_true(agt_request_wants_events("text/event-stream"));
    assert_true(agt_request_wants_events("application/json, text/event-stream;q=0.5"));
    assert_true(agt_request_wants_events("Text/Event-Stream"));
    assert_false(agt_request_wants_events("application/json"));
    assert_false(agt_request_wants_events("*/*"));
    assert_false(agt_request_wants_events("text/event-streams"));
    assert_false(agt_request_wants_events(""));
    assert_false(agt_request_wants_events(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(doubled_and_smuggled_headers_are_refused),
        cmocka_unit_test(targets_that_are_no_plain_path_are_refused),
        cmocka_unit_test(unknown_query_parameters_are_named),
        cmocka_unit_test(a_judge_is_told_of_them_with_its_own_status),
        cmocka_unit_test(only_listed_hosts_are_answered),
        cmocka_unit_test(a_missing_host_is_refused),
        cmocka_unit_test(a_star_allows_every_host),
        cmocka_unit_test(host_lists_may_hold_spaces),
        cmocka_unit_test(only_json_bodies_are_taken),
        cmocka_unit_test(body_lengths_are_judged_before_the_body),
        cmocka_unit_test(chunked_bodies_need_no_length),
        cmocka_unit_test(a_get_with_a_body_is_refused),
        cmocka_unit_test(wrong_methods_are_told_the_right_ones),
        cmocka_unit_test(unknown_paths_are_told_where_the_routes_are),
        cmocka_unit_test(a_token_is_asked_of_the_interface_but_not_of_probes),
        cmocka_unit_test(an_options_request_needs_no_token),
        cmocka_unit_test(only_listed_origins_may_read),
        cmocka_unit_test(two_origins_are_none),
        cmocka_unit_test(accept_headers_choose_events),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
