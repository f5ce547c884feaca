/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/http/judge_text.h"

#include "common/auto.h"
#include "common/buf.h"
#include "orchestrator/http/json_out.h"
#include "rpc/status.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARTS_MAX 3U
#define VERSION_SIZE 32U

/* ---- runtimes ---- */

static const struct {
    const char *runtime;
    const char *names[4]; /* that people of other judges use; NULL: no more */
} aliases[] = {
    {"python", {"py", "py3", "python3"}},
    {"shell", {"bash", "sh"}},
    {"node", {"javascript", "js"}},
    {"c", {"gcc"}},
    {"c++", {"cpp", "g++"}},
    {"go", {"golang"}},
    {"rust", {"rs"}},
};

static const char *const *names_of(const char *runtime)
{
    static const char *const none[] = {NULL};

    for (size_t i = 0; i < CR_ARRAY_SIZE(aliases); i++) {
        if (strcmp(aliases[i].runtime, runtime) == 0)
            return aliases[i].names;
    }
    return none;
}

static bool is_named(const char *runtime, const char *language)
{
    if (strcmp(runtime, language) == 0)
        return true;
    for (const char *const *name = names_of(runtime); *name; name++) {
        if (strcmp(*name, language) == 0)
            return true;
    }
    return false;
}

/* A version, or the part of one that a range gives. */
struct version {
    uint64_t parts[PARTS_MAX];
    size_t count;
};

/* "3.11", "3.x", "*": numbers up to the first wildcard. False for anything else. */
static bool read_version(const char *text, struct version *ret_version)
{
    *ret_version = (struct version){0};
    while (*text && ret_version->count < PARTS_MAX) {
        char *end;

        if (strchr("xX*", *text))
            return text[1] == '\0' || text[1] == '.';
        if (*text < '0' || *text > '9')
            return false;
        ret_version->parts[ret_version->count++] = strtoull(text, &end, 10);
        if (*end != '\0' && *end != '.')
            return false;
        text = *end ? end + 1 : end;
    }
    return *text == '\0';
}

/* The numbers in what a runtime says of itself, "Python 3.11.2": all of them, as text. */
static void plain_version(const char *text, char ret_version[VERSION_SIZE])
{
    size_t size;

    text += strcspn(text, "0123456789");
    size = strspn(text, "0123456789.");
    while (size > 0 && text[size - 1] == '.')
        size--;
    if (size == 0 || size >= VERSION_SIZE)
        (void)snprintf(ret_version, VERSION_SIZE, "0.0.0"); /* it has not been asked yet */
    else
        (void)snprintf(ret_version, VERSION_SIZE, "%.*s", (int)size, text);
}

/* Negative, 0 or positive; over the first `count` parts. */
static int compare(const struct version *a, const struct version *b, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (a->parts[i] != b->parts[i])
            return a->parts[i] < b->parts[i] ? -1 : 1;
    }
    return 0;
}

/* How many parts must be the same, by the sign in front of a range. */
static bool fits(const struct version *version, const char *range)
{
    bool is_least = strchr("^~>", *range) != NULL && *range != '\0';
    int sign = is_least ? *range : '=';
    struct version wanted;
    size_t same;

    range += strspn(range, "^~>=v ");
    if (!read_version(range, &wanted))
        return false;
    same = wanted.count;
    if (sign == '>')
        same = 0;
    else if (sign == '^' && same > 1)
        same = 1;
    else if (sign == '~' && same > 2)
        same = 2;
    return compare(version, &wanted, same) == 0 &&
           (!is_least || compare(version, &wanted, PARTS_MAX) >= 0);
}

const Crisol__Sandbox__V1__Runtime *
agt_judge_find(const Crisol__Sandbox__V1__ListRuntimesResponse *runtimes, const char *language,
               const char *version)
{
    const Crisol__Sandbox__V1__Runtime *best = NULL;
    struct version best_version = {0};

    for (size_t i = 0; i < runtimes->n_runtimes; i++) {
        const Crisol__Sandbox__V1__Runtime *runtime = runtimes->runtimes[i];
        char text[VERSION_SIZE];
        struct version found;

        plain_version(runtime->version, text);
        (void)read_version(text, &found); /* more than three parts: the first three count */
        /* One that has not been asked for its version yet fits: it is no reason to refuse. */
        if (!is_named(runtime->name, language) ||
            (*runtime->version != '\0' && !fits(&found, version)))
            continue;
        if (best && compare(&found, &best_version, PARTS_MAX) <= 0)
            continue;
        best = runtime;
        best_version = found;
    }
    return best;
}

static void write_version(struct agt_json *json, const char *text)
{
    char version[VERSION_SIZE];

    plain_version(text, version);
    agt_json_str(json, "version", version);
}

int agt_judge_write_runtimes(const Crisol__Sandbox__V1__ListRuntimesResponse *runtimes,
                             struct cr_buf *buf)
{
    struct agt_json json;

    agt_json_begin(&json, buf);
    agt_json_open(&json, NULL, '[');
    for (size_t i = 0; i < runtimes->n_runtimes; i++) {
        const Crisol__Sandbox__V1__Runtime *runtime = runtimes->runtimes[i];

        agt_json_open(&json, NULL, '{');
        agt_json_str(&json, "language", runtime->name);
        write_version(&json, runtime->version);
        agt_json_open(&json, "aliases", '[');
        for (const char *const *name = names_of(runtime->name); *name; name++)
            agt_json_str(&json, NULL, *name);
        agt_json_close(&json, ']');
        agt_json_close(&json, '}');
    }
    agt_json_close(&json, ']');
    return agt_json_end(&json);
}

/* ---- answer ---- */

/* Two letters for how it went wrong; NULL: it did not. */
static const char *stage_status(Crisol__Sandbox__V1__VerdictCode code, bool is_stderr)
{
    switch (code) {
    case CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_OK:
        return NULL;
    case CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_WALL_TIME_LIMIT:
    case CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_CPU_TIME_LIMIT:
        return "TO";
    case CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_OUTPUT_LIMIT:
        return is_stderr ? "EL" : "OL";
    case CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_SIGNALED:
    case CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_MEMORY_LIMIT:
    case CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_SECURITY_VIOLATION:
        return "SG";
    case CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_SANDBOX_ERROR:
    case CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_SANDBOX_LOST:
    case CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_CANCELLED:
        return "XX";
    default:
        return "RE";
    }
}

static void write_text_or_null(struct agt_json *json, const char *key, const char *text)
{
    if (text)
        agt_json_str(json, key, text);
    else
        agt_json_null(json, key);
}

static void write_end(struct agt_json *json, int exit_code, int signal_number)
{
    const char *name = signal_number > 0 ? sigabbrev_np(signal_number) : NULL;
    char signal[16];

    (void)snprintf(signal, sizeof(signal), "SIG%s", name ? name : "");
    if (signal_number > 0)
        agt_json_null(json, "code");
    else
        agt_json_int(json, "code", exit_code);
    write_text_or_null(json, "signal", name ? signal : NULL);
}

static void write_verdict(struct agt_json *json, const Crisol__Sandbox__V1__Verdict *verdict,
                          const char *status, const Crisol__Sandbox__V1__Usage *usage)
{
    write_text_or_null(json, "message", status ? verdict->message : NULL);
    write_text_or_null(json, "status", status);
    agt_json_int(json, "cpu_time", usage ? (int64_t)(usage->cpu_total_us / 1000) : 0);
    agt_json_int(json, "wall_time", usage ? (int64_t)(usage->wall_us / 1000) : 0);
    agt_json_int(json, "memory", usage ? (int64_t)usage->memory_peak_bytes : 0);
}

static void write_text(struct agt_json *json, const char *key, const struct cr_buf *text)
{
    agt_json_text(json, key, text->data, text->size);
}

static void write_run(struct agt_json *json, const struct agt_judge_outcome *outcome)
{
    const Crisol__Sandbox__V1__ExecuteResult *result = outcome->result;
    const Crisol__Sandbox__V1__StreamInfo *info = result->stderr_info;
    const char *status =
        stage_status(result->verdict->code, info && info->total_bytes > info->delivered_bytes);

    agt_json_open(json, "run", '{');
    write_text(json, "stdout", outcome->streams[0]);
    write_text(json, "stderr", outcome->streams[1]);
    write_text(json, "output", outcome->output);
    write_end(json, result->exit_code, result->signal);
    write_verdict(json, result->verdict, status, result->usage);
    agt_json_close(json, '}');
}

/* The two streams of a compiler are kept as one. */
static void write_compile(struct agt_json *json, const Crisol__Sandbox__V1__CompileResult *compile)
{
    const char *status = stage_status(compile->verdict->code, false);

    agt_json_open(json, "compile", '{');
    agt_json_str(json, "stdout", "");
    agt_json_text(json, "stderr", compile->output.data, compile->output.len);
    agt_json_text(json, "output", compile->output.data, compile->output.len);
    write_end(json, compile->exit_code, compile->signal);
    write_verdict(json, compile->verdict, status, compile->usage);
    agt_json_close(json, '}');
}

int agt_judge_write(const struct agt_judge_outcome *outcome, struct cr_buf *buf)
{
    const Crisol__Sandbox__V1__CompileResult *compile = outcome->result->compile;
    struct agt_json json;

    if (!outcome->result->verdict || (compile && !compile->verdict))
        return -EINVAL;
    agt_json_begin(&json, buf);
    agt_json_open(&json, NULL, '{');
    agt_json_str(&json, "language", outcome->language);
    write_version(&json, outcome->version);
    if (compile)
        write_compile(&json, compile);
    if (!compile || outcome->result->phase != CRISOL__SANDBOX__V1__PHASE__PHASE_COMPILE)
        write_run(&json, outcome);
    agt_json_close(&json, '}');
    return agt_json_end(&json);
}
