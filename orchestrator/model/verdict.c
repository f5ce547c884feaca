/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/model/verdict.h"

#include "common/auto.h"
#include "common/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

/* Of a provider's own message. */
#define MESSAGE_SHOWN 200

struct rule {
    enum agt_model_end end;
    enum agt_repeat repeat;
    bool is_varied;
    const char *text;
};

/* The texts follow the name of the host. */
static const struct rule TRANSPORT[AGT_HTTP_END_COUNT] = {
    [AGT_HTTP_DONE] = {AGT_MODEL_OK, AGT_REPEAT_NO, false, ""},
    [AGT_HTTP_NEVER_SENT] = {AGT_MODEL_UNAVAILABLE, AGT_REPEAT_BUSY, false,
                             "cannot be connected to"},
    [AGT_HTTP_IN_DOUBT] = {AGT_MODEL_UNAVAILABLE, AGT_REPEAT_ONCE, false,
                           "closed the connection without an answer (it may charge the request)"},
    [AGT_HTTP_CUT] = {AGT_MODEL_BAD_ANSWER, AGT_REPEAT_ONCE, false,
                      "broke the connection in the middle of the answer"},
    [AGT_HTTP_TIMEOUT_CONNECT] = {AGT_MODEL_UNAVAILABLE, AGT_REPEAT_BUSY, false,
                                  "did not take the connection in time"},
    [AGT_HTTP_TIMEOUT_FIRST_BYTE] = {AGT_MODEL_UNAVAILABLE, AGT_REPEAT_ONCE, false,
                                     "did not begin to answer in time"},
    [AGT_HTTP_TIMEOUT_IDLE] = {AGT_MODEL_UNAVAILABLE, AGT_REPEAT_ONCE, false,
                               "stopped in the middle of the answer"},
    [AGT_HTTP_TIMEOUT_TOTAL] = {AGT_MODEL_DEADLINE, AGT_REPEAT_NO, false,
                                "did not finish the answer before the deadline"},
    [AGT_HTTP_TOO_BIG] = {AGT_MODEL_BAD_ANSWER, AGT_REPEAT_NO, false,
                          "sent more than is read of an answer"},
    [AGT_HTTP_ABORTED] = {AGT_MODEL_BAD_ANSWER, AGT_REPEAT_NO, false,
                          "sent an answer that is not understood"},
    [AGT_HTTP_CANCELLED] = {AGT_MODEL_CANCELLED, AGT_REPEAT_NO, false, "was no longer waited for"},
    [AGT_HTTP_TLS] = {AGT_MODEL_UNAVAILABLE, AGT_REPEAT_NO, false,
                      "has a certificate that is not trusted"},
    [AGT_HTTP_DNS] = {AGT_MODEL_UNAVAILABLE, AGT_REPEAT_BUSY, false,
                      "has a name that cannot be resolved"},
    [AGT_HTTP_CONFIG] = {AGT_MODEL_BAD_REQUEST, AGT_REPEAT_NO, false,
                         "cannot be called with this configuration"},
};

static const struct {
    int status;
    struct rule rule;
} STATUSES[] = {
    {400, {AGT_MODEL_BAD_REQUEST, AGT_REPEAT_NO, false, "refused the request"}},
    {401, {AGT_MODEL_AUTH, AGT_REPEAT_NO, false, "refused the key"}},
    {403, {AGT_MODEL_AUTH, AGT_REPEAT_NO, false, "refused the key"}},
    {404, {AGT_MODEL_GONE, AGT_REPEAT_NO, false, ""}},
    {408, {AGT_MODEL_UNAVAILABLE, AGT_REPEAT_BUSY, false, "timed out"}},
    {409, {AGT_MODEL_UNAVAILABLE, AGT_REPEAT_ONCE, false, "aborted the request"}},
    {413, {AGT_MODEL_BAD_REQUEST, AGT_REPEAT_NO, false, "finds the request too large"}},
    {429, {AGT_MODEL_QUOTA, AGT_REPEAT_BUSY, false, "says that the quota is used up"}},
    {499, {AGT_MODEL_UNAVAILABLE, AGT_REPEAT_ONCE, false, "aborted the request"}},
    {500, {AGT_MODEL_UNAVAILABLE, AGT_REPEAT_BUSY, false, "failed inside"}},
    {502, {AGT_MODEL_UNAVAILABLE, AGT_REPEAT_BUSY, false, "is not available"}},
    {503, {AGT_MODEL_UNAVAILABLE, AGT_REPEAT_BUSY, false, "is overloaded"}},
    {504, {AGT_MODEL_UNAVAILABLE, AGT_REPEAT_BUSY, false, "timed out"}},
};

static const struct rule REDIRECT = {
    AGT_MODEL_BAD_REQUEST, AGT_REPEAT_NO, false,
    "answered with a redirect, which is not followed: the key would go along"};
static const struct rule REFUSED = {AGT_MODEL_BAD_REQUEST, AGT_REPEAT_NO, false,
                                    "refused the request"};
static const struct rule FAILED = {AGT_MODEL_UNAVAILABLE, AGT_REPEAT_NO, false, "failed inside"};
static const struct rule ODD_STATUS = {AGT_MODEL_BAD_ANSWER, AGT_REPEAT_NO, false,
                                       "does not answer as such a server does"};

static const struct {
    const char *name;
    struct rule rule;
} FINISHES[] = {
    {"STOP", {AGT_MODEL_OK, AGT_REPEAT_NO, false, ""}},
    /* Those of OpenAI's interface. */
    {"stop", {AGT_MODEL_OK, AGT_REPEAT_NO, false, ""}},
    {"tool_calls", {AGT_MODEL_OK, AGT_REPEAT_NO, false, ""}},
    {"function_call", {AGT_MODEL_OK, AGT_REPEAT_NO, false, ""}},
    {"length",
     {AGT_MODEL_TRUNCATED, AGT_REPEAT_NO, false, "the answer was cut at the token limit"}},
    {"content_filter", {AGT_MODEL_BLOCKED, AGT_REPEAT_NO, false, "the answer was blocked"}},
    /* Gemini's. */
    {"MAX_TOKENS",
     {AGT_MODEL_TRUNCATED, AGT_REPEAT_NO, false, "the answer was cut at the token limit"}},
    {"SAFETY", {AGT_MODEL_BLOCKED, AGT_REPEAT_NO, false, "the answer was blocked"}},
    {"PROHIBITED_CONTENT", {AGT_MODEL_BLOCKED, AGT_REPEAT_NO, false, "the answer was blocked"}},
    {"BLOCKLIST", {AGT_MODEL_BLOCKED, AGT_REPEAT_NO, false, "the answer was blocked"}},
    {"SPII", {AGT_MODEL_BLOCKED, AGT_REPEAT_NO, false, "the answer was blocked"}},
    {"MODEL_ARMOR", {AGT_MODEL_BLOCKED, AGT_REPEAT_NO, false, "the answer was blocked"}},
    {"LANGUAGE", {AGT_MODEL_BLOCKED, AGT_REPEAT_NO, false, "the answer was blocked"}},
    {"RECITATION",
     {AGT_MODEL_BLOCKED, AGT_REPEAT_ONCE, true, "the answer was too close to a source"}},
    {"MALFORMED_FUNCTION_CALL",
     {AGT_MODEL_BAD_ANSWER, AGT_REPEAT_TWICE, true, "the model made a malformed answer"}},
    {"UNEXPECTED_TOOL_CALL",
     {AGT_MODEL_BAD_ANSWER, AGT_REPEAT_TWICE, true, "the model made a malformed answer"}},
    {"MALFORMED_RESPONSE",
     {AGT_MODEL_BAD_ANSWER, AGT_REPEAT_TWICE, true, "the model made a malformed answer"}},
    {"TOO_MANY_TOOL_CALLS",
     {AGT_MODEL_BAD_ANSWER, AGT_REPEAT_TWICE, true, "the model made a malformed answer"}},
    {"MISSING_THOUGHT_SIGNATURE",
     {AGT_MODEL_BAD_REQUEST, AGT_REPEAT_NO, false, "the request lacks a thought signature"}},
    {"CONTINUATION",
     {AGT_MODEL_TRUNCATED, AGT_REPEAT_NO, false, "the answer needs to be continued"}},
    {"PUP_LIMITED_DISABLED",
     {AGT_MODEL_AUTH, AGT_REPEAT_NO, false, "the account may not use this model"}},
    {"ESCALATION", {AGT_MODEL_AUTH, AGT_REPEAT_NO, false, "the account may not use this model"}},
};

/* OTHER, IMAGE_*, and every reason that is invented after this was written. */
static const struct rule FINISH_OTHER = {AGT_MODEL_BAD_ANSWER, AGT_REPEAT_ONCE, true,
                                         "the model stopped for an unusual reason"};

static const struct rule EMPTY = {AGT_MODEL_BAD_ANSWER, AGT_REPEAT_ONCE, true,
                                  "the model gave an empty answer"};
static const struct rule NO_END = {AGT_MODEL_BAD_ANSWER, AGT_REPEAT_ONCE, false,
                                   "the answer ended before its end"};
static const struct rule ENDLESS = {AGT_MODEL_BAD_ANSWER, AGT_REPEAT_ONCE, true,
                                    "the answer repeats itself without end and was stopped"};
static const struct rule TOO_LARGE = {AGT_MODEL_BAD_ANSWER, AGT_REPEAT_NO, false,
                                      "the answer is larger than is read of one"};
static const struct rule GARBLED = {AGT_MODEL_BAD_ANSWER, AGT_REPEAT_ONCE, false,
                                    "the answer is not the JSON that was to come"};
static const struct rule NO_MEMORY = {AGT_MODEL_UNAVAILABLE, AGT_REPEAT_NO, false,
                                      "out of memory for the answer"};
static const struct rule PROMPT_BLOCKED = {AGT_MODEL_BLOCKED, AGT_REPEAT_NO, false,
                                           "the prompt was blocked"};

int64_t agt_retry_after_ms(const char *text, int64_t now_s)
{
    char *end = NULL;
    int64_t seconds;
    time_t date;

    if (!*text)
        return -1;
    errno = 0;
    seconds = strtoll(text, &end, 10);
    if (end != text && !*end && errno == 0)
        return seconds < 0 ? -1 : (seconds > INT32_MAX ? INT32_MAX : seconds) * 1000;
    date = curl_getdate(text, NULL);
    if (date < 0)
        return -1;
    return date <= now_s ? 0 : (date - now_s) * 1000;
}

static void apply(const struct rule *rule, struct agt_verdict *verdict)
{
    verdict->end = rule->end;
    verdict->repeat = rule->repeat;
    verdict->is_varied = rule->is_varied;
}

/* "text (reason): message", the last two where they are there. */
static void apply_with(const struct rule *rule, const char *reason, const char *message,
                       struct agt_verdict *verdict)
{
    apply(rule, verdict);
    if (!*rule->text)
        return;
    (void)snprintf(verdict->message, sizeof(verdict->message), "%s%s%s%s%s%s", rule->text,
                   *reason ? " (" : "", reason, *reason ? ")" : "", *message ? ": " : "", message);
}

/* "; check SETTING" where a person should look at one, or nothing. */
static void write_hint(const struct agt_model_attempt *attempt, const struct rule *rule, char *text,
                       size_t room)
{
    const char *setting = NULL;

    if (rule == &REDIRECT || rule == &ODD_STATUS || rule == &TRANSPORT[AGT_HTTP_CONFIG])
        setting = attempt->names->base_url;
    else if (rule->end == AGT_MODEL_AUTH)
        setting = attempt->names->key;
    (void)snprintf(text, room, "%s%s", setting ? "; check " : "", setting ? setting : "");
}

static void judge_transport(const struct agt_model_attempt *attempt, struct agt_verdict *verdict)
{
    const struct rule *rule = &TRANSPORT[attempt->http->end];
    char hint[64];

    apply(rule, verdict);
    write_hint(attempt, rule, hint, sizeof(hint));
    (void)snprintf(verdict->message, sizeof(verdict->message), "%s %s%s", attempt->host, rule->text,
                   hint);
}

static const struct rule *find_status(int status)
{
    for (size_t i = 0; i < CR_ARRAY_SIZE(STATUSES); i++) {
        if (STATUSES[i].status == status)
            return &STATUSES[i].rule;
    }
    switch (status / 100) {
    case 3:
        return &REDIRECT;
    case 4:
        return &REFUSED;
    case 5:
        return &FAILED;
    default:
        return &ODD_STATUS;
    }
}

/* Gemini answers a bad key with 400. */
static bool is_key_refused(const struct agt_reply_error *error)
{
    return strncmp(error->reason, "API_KEY_", 8) == 0 ||
           strcmp(error->status, "UNAUTHENTICATED") == 0 ||
           strncmp(error->message, "API key not valid", 17) == 0 ||
           strncmp(error->message, "API key expired", 15) == 0 ||
           strcmp(error->reason, "invalid_api_key") == 0;
}

static void judge_gone(const struct agt_model_attempt *attempt, struct agt_verdict *verdict)
{
    (void)snprintf(verdict->message, sizeof(verdict->message),
                   "the model '%.80s' does not exist (any more) at %.100s: set %s to another one; "
                   "%s",
                   attempt->model, attempt->host, attempt->names->model,
                   attempt->names->list_models);
}

static void judge_status(const struct agt_model_attempt *attempt, int status,
                         const struct agt_reply_error *error, struct agt_verdict *verdict)
{
    const struct agt_reply_error none = AGT_REPLY_ERROR_INIT;
    const struct rule *rule = find_status(status);
    char hint[64];
    size_t shown;

    if (!error)
        error = &none;
    if (status == 404 && !error->is_set) /* a 404 of something that is not Gemini */
        rule = &ODD_STATUS;
    else if (status == 400 && is_key_refused(error))
        rule = find_status(401);
    apply(rule, verdict);
    if (rule->end == AGT_MODEL_GONE) {
        judge_gone(attempt, verdict);
        return;
    }
    /* Waiting does not help a daily quota, unless the server itself says how long. */
    if (error->is_used_up && error->retry_delay_ms < 0)
        verdict->repeat = AGT_REPEAT_NO;
    verdict->wait_ms = error->retry_delay_ms;
    if (attempt->http->head.retry_after[0]) {
        int64_t wait_ms = agt_retry_after_ms(attempt->http->head.retry_after, attempt->now_s);

        if (wait_ms > verdict->wait_ms)
            verdict->wait_ms = wait_ms;
    }
    write_hint(attempt, rule, hint, sizeof(hint));
    /* Not cut inside a character. */
    shown = cr_utf8_complete_prefix(error->message, strnlen(error->message, MESSAGE_SHOWN));
    (void)snprintf(verdict->message, sizeof(verdict->message), "%.100s %s%s (HTTP %d)%s%.*s",
                   attempt->host, rule->text, hint, status, error->message[0] ? ": " : "",
                   (int)shown, error->message);
}

static void judge_stream_error(const struct agt_model_attempt *attempt, struct agt_verdict *verdict)
{
    switch (attempt->stream_error) {
    case -EREMOTEIO:
        judge_status(attempt, attempt->reply->error.code ? attempt->reply->error.code : 500,
                     &attempt->reply->error, verdict);
        break;
    case -ELOOP:
        apply_with(&ENDLESS, "", "", verdict);
        break;
    case -EMSGSIZE:
    case -ENOSPC:
        apply_with(&TOO_LARGE, "", "", verdict);
        break;
    case -ENOMEM:
        apply_with(&NO_MEMORY, "", "", verdict);
        break;
    default:
        apply_with(&GARBLED, attempt->http->head.content_type, "", verdict);
        break;
    }
}

static void judge_truncated(const struct agt_reply *reply, struct agt_verdict *verdict)
{
    const struct agt_model_usage *usage = &reply->usage;

    if (usage->thought_tokens <= usage->answer_tokens)
        return;
    /* Thinking took what the answer needed: a shorter answer would not help, less thinking may. */
    verdict->repeat = AGT_REPEAT_ONCE;
    verdict->is_relaxed = true;
    (void)snprintf(verdict->message, sizeof(verdict->message),
                   "the answer was cut at the token limit: thoughts took %u tokens and left %u",
                   usage->thought_tokens, usage->answer_tokens);
}

static void judge_finish(const struct agt_reply *reply, struct agt_verdict *verdict)
{
    const struct rule *rule = &FINISH_OTHER;

    for (size_t i = 0; i < CR_ARRAY_SIZE(FINISHES); i++) {
        if (strcmp(FINISHES[i].name, reply->finish_reason) == 0)
            rule = &FINISHES[i].rule;
    }
    if (rule->end == AGT_MODEL_OK && reply->text.size == 0 && !reply->has_call)
        rule = &EMPTY;
    apply_with(rule, reply->finish_reason, reply->finish_message, verdict);
    if (rule->end == AGT_MODEL_TRUNCATED)
        judge_truncated(reply, verdict);
}

static void judge_answer(const struct agt_model_attempt *attempt, struct agt_verdict *verdict)
{
    const struct agt_reply *reply = attempt->reply;

    if (reply->block_reason[0] && reply->text.size == 0)
        apply_with(&PROMPT_BLOCKED, reply->block_reason, "", verdict);
    else if (reply->finish_reason[0])
        judge_finish(reply, verdict);
    else if (reply->chunks == 0 && attempt->http->received > 0)
        apply_with(&GARBLED, attempt->http->head.content_type, "", verdict);
    else if (reply->chunks > 0 && !reply->has_candidate)
        apply_with(&EMPTY, "no candidate", "", verdict);
    else
        apply_with(&NO_END, "no finish reason", "", verdict);
}

/* The last chunk has come; what broke after it does no harm. */
static bool is_whole(const struct agt_model_attempt *attempt)
{
    enum agt_http_end end = attempt->http->end;

    return end == AGT_HTTP_DONE || ((end == AGT_HTTP_CUT || end == AGT_HTTP_TIMEOUT_IDLE) &&
                                    attempt->reply->finish_reason[0]);
}

/* What is cut is garbled too; then the cut is the better reason. */
static bool has_stream_error(const struct agt_model_attempt *attempt)
{
    if (attempt->stream_error == -EREMOTEIO && attempt->http->end == AGT_HTTP_CUT)
        return true;
    return attempt->stream_error < 0 &&
           (attempt->http->end == AGT_HTTP_ABORTED || attempt->http->end == AGT_HTTP_DONE);
}

void agt_verdict_judge(const struct agt_model_attempt *attempt, struct agt_verdict *ret_verdict)
{
    int status = attempt->http->head.status;

    *ret_verdict = (struct agt_verdict){.wait_ms = -1};
    if (attempt->http->end == AGT_HTTP_DONE && (status < 200 || status > 299))
        judge_status(attempt, status, attempt->error, ret_verdict);
    else if (has_stream_error(attempt))
        judge_stream_error(attempt, ret_verdict);
    else if (!is_whole(attempt))
        judge_transport(attempt, ret_verdict);
    else
        judge_answer(attempt, ret_verdict);
}
