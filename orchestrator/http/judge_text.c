/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/http/judge_text.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/signal_name.h"
#include "orchestrator/http/json_out.h"
#include "orchestrator/http/judge_version.h"
#include "rpc/status.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_SIZE 64U /* more than a runtime's name has */

/* ---- runtimes ---- */

/* Where people of other judges use another name than ours, that is the one that is told. */
static const struct {
    const char *runtime;
    const char *language;
    const char *aliases[4]; /* NULL: no more */
} languages[] = {
    {"python", "python", {"py", "py3", "python3"}},
    {"shell", "shell", {"bash", "sh"}},
    {"node", "javascript", {"node-javascript", "node-js", "js"}},
    {"c", "c", {"gcc"}},
    {"c++", "c++", {"cpp", "g++"}},
    {"go", "go", {"golang"}},
    {"rust", "rust", {"rs"}},
};

/* What one runtime is called. */
struct names {
    char runtime[NAME_SIZE]; /* without its version */
    const char *language;    /* may be the above */
    const char *const *aliases;
};

static void names_of(const char *runtime, struct names *ret_names)
{
    static const char *const none[] = {NULL};

    (void)snprintf(ret_names->runtime, sizeof(ret_names->runtime), "%.*s",
                   (int)strcspn(runtime, ":"), runtime);
    ret_names->language = ret_names->runtime;
    ret_names->aliases = none;
    for (size_t i = 0; i < CR_ARRAY_SIZE(languages); i++) {
        if (strcmp(languages[i].runtime, ret_names->runtime) != 0)
            continue;
        ret_names->language = languages[i].language;
        ret_names->aliases = languages[i].aliases;
    }
}

/* By the whole name of a runtime, too, which has its version where there are several. */
static bool is_named(const char *runtime, const char *language)
{
    struct names names = {.language = NULL};

    names_of(runtime, &names);
    if (strcmp(runtime, language) == 0 || strcmp(names.runtime, language) == 0 ||
        strcmp(names.language, language) == 0)
        return true;
    for (const char *const *alias = names.aliases; *alias; alias++) {
        if (strcmp(*alias, language) == 0)
            return true;
    }
    return false;
}

const Crisol__Sandbox__V1__Runtime *
agt_judge_find(const Crisol__Sandbox__V1__ListRuntimesResponse *runtimes, const char *language,
               const char *version)
{
    const Crisol__Sandbox__V1__Runtime *best = NULL;
    struct agt_judge_version best_version = {.count = 0};

    for (size_t i = 0; i < runtimes->n_runtimes; i++) {
        const Crisol__Sandbox__V1__Runtime *runtime = runtimes->runtimes[i];
        struct agt_judge_version found;

        agt_judge_version_read(runtime->version, &found);
        /* One that has not been asked for its version yet fits: it is no reason to refuse. */
        if (!is_named(runtime->name, language) ||
            (*runtime->version != '\0' && !agt_judge_version_fits(&found, version)))
            continue;
        if (best && agt_judge_version_compare(&found, &best_version) <= 0)
            continue;
        best = runtime;
        best_version = found;
    }
    return best;
}

static void write_language(struct agt_json *json, const char *runtime)
{
    struct names names = {.language = NULL};

    names_of(runtime, &names);
    agt_json_str(json, "language", names.language);
}

static void write_version(struct agt_json *json, const char *key, const char *text)
{
    char version[AGT_JUDGE_VERSION_SIZE];

    agt_judge_version_plain(text, version);
    agt_json_str(json, key, version);
}

static void write_runtime(struct agt_json *json, const Crisol__Sandbox__V1__Runtime *runtime)
{
    struct names names = {.language = NULL};

    names_of(runtime->name, &names);
    write_language(json, runtime->name);
    write_version(json, "version", runtime->version);
    agt_json_open(json, "aliases", '[');
    for (const char *const *alias = names.aliases; *alias; alias++)
        agt_json_str(json, NULL, *alias);
    agt_json_close(json, ']');
    if (strcmp(names.language, runtime->name) != 0)
        agt_json_str(json, "runtime", runtime->name);
}

/* Nothing is installed by this interface: what is offered is there. */
static void write_package(struct agt_json *json, const Crisol__Sandbox__V1__Runtime *runtime)
{
    write_language(json, runtime->name);
    write_version(json, "language_version", runtime->version);
    agt_json_bool(json, "installed", true);
}

static int write_list(const Crisol__Sandbox__V1__ListRuntimesResponse *runtimes,
                      void (*write)(struct agt_json *json,
                                    const Crisol__Sandbox__V1__Runtime *runtime),
                      struct cr_buf *buf)
{
    struct agt_json json;

    agt_json_begin(&json, buf);
    agt_json_open(&json, NULL, '[');
    for (size_t i = 0; i < runtimes->n_runtimes; i++) {
        agt_json_open(&json, NULL, '{');
        write(&json, runtimes->runtimes[i]);
        agt_json_close(&json, '}');
    }
    agt_json_close(&json, ']');
    return agt_json_end(&json);
}

int agt_judge_write_runtimes(const Crisol__Sandbox__V1__ListRuntimesResponse *runtimes,
                             struct cr_buf *buf)
{
    return write_list(runtimes, write_runtime, buf);
}

int agt_judge_write_packages(const Crisol__Sandbox__V1__ListRuntimesResponse *runtimes,
                             struct cr_buf *buf)
{
    return write_list(runtimes, write_package, buf);
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
    char signal[CR_SIGNAL_NAME_SIZE];

    if (signal_number > 0)
        agt_json_null(json, "code");
    else
        agt_json_int(json, "code", exit_code);
    write_text_or_null(json, "signal",
                       signal_number > 0 ? cr_signal_name(signal_number, signal) : NULL);
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
static void write_compile(struct agt_json *json, const char *key,
                          const Crisol__Sandbox__V1__CompileResult *compile)
{
    const char *status = stage_status(compile->verdict->code, false);

    agt_json_open(json, key, '{');
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
    write_language(&json, outcome->runtime);
    write_version(&json, "version", outcome->version);
    if (compile)
        write_compile(&json, "compile", compile);
    if (!compile || outcome->result->phase != CRISOL__SANDBOX__V1__PHASE__PHASE_COMPILE)
        write_run(&json, outcome);
    else /* clients read `run` always */
        write_compile(&json, "run", compile);
    agt_json_close(&json, '}');
    return agt_json_end(&json);
}
