/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "orchestrator/http/problem.h"
#include "orchestrator/http/request.h"
#include "rpc/tokens.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

#define TOKEN "a-token-of-the-fuzzer"

/*
 * What the server judges of a request: the input is a method, a target and
 * header lines "name: value", one per line. Whatever comes, a request is let
 * in with a route, or refused with a problem that can be written; and what is
 * let in has exactly one allowed Host and one way to tell its length.
 */
static char *next_line(char **at)
{
    char *line = *at;
    char *end;

    if (!line)
        return NULL;
    end = strchr(line, '\n');
    if (end)
        *end++ = '\0';
    *at = end;
    return line;
}

static void note_lines(struct agt_request *request, char *at)
{
    for (char *line = next_line(&at); line; line = next_line(&at)) {
        char *value = strchr(line, ':');

        if (!value)
            continue;
        *value++ = '\0';
        agt_request_note(request, line, value + strspn(value, " \t"));
    }
}

static void judge(const struct agt_request *request, const struct agt_request_rules *rules)
{
    const struct agt_route *route = NULL;
    struct agt_problem problem;
    CR_AUTO_BUF struct cr_buf buf = {0};

    cr_buf_init(&buf, 1 << 20);
    (void)agt_request_wants_events(request->accept.value);
    if (agt_request_check(request, rules, &route, &problem)) {
        FUZZ_CHECK(route && request->raw_url[0] == '/' && request->host.count == 1);
        FUZZ_CHECK(request->content_length.count + request->transfer_encoding.count <= 1);
        FUZZ_CHECK(agt_route_allows(route, request->method));
        return;
    }
    FUZZ_CHECK(problem.http_status >= 400 && problem.http_status < 500);
    FUZZ_CHECK(agt_problem_write(&problem, &buf) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rpc_tokens *tokens;
    struct agt_request_rules rules = {.allowed_hosts = "localhost,[::1]"};
    char caller[64] = "ip:192.0.2.1";
    struct agt_request request = {.caller = caller};
    char *text = fuzz_text(data, size);
    char *at = text;

    if (!tokens)
        tokens = rpc_tokens_new();
    if (!text || !tokens || rpc_tokens_load(tokens, TOKEN, sizeof(TOKEN) - 1, NULL) < 0) {
        free(text);
        return 0;
    }
    rules.tokens = tokens;
    request.method = next_line(&at);
    request.raw_url = next_line(&at);
    if (request.raw_url) {
        note_lines(&request, at);
        judge(&request, &rules);
    }
    free(text);
    return 0;
}
