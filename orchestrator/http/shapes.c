/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/http/shapes.h"

#include "common/auto.h"

#include <crisol/agent/v1/agent.pb-c.h>
#include <crisol/sandbox/v1/sandbox.pb-c.h>

#define TEXT .type = {.kind = AGT_SCHEMA_STRING}
#define TEXTS .type = {.kind = AGT_SCHEMA_STRINGS}
#define WHOLE .type = {.kind = AGT_SCHEMA_INTEGER}
#define FLAG .type = {.kind = AGT_SCHEMA_BOOLEAN}
#define AGENT(name) .type = {AGT_SCHEMA_MESSAGE, &crisol__agent__v1__##name##__descriptor}
#define AGENTS(name) .type = {AGT_SCHEMA_MESSAGES, &crisol__agent__v1__##name##__descriptor}
#define AGENT_ENUM(name) .type = {AGT_SCHEMA_ENUM, &crisol__agent__v1__##name##__descriptor}
#define SHAPE(shape) .type = {AGT_SCHEMA_SHAPE, &(shape)}
#define SHAPES(shape) .type = {AGT_SCHEMA_SHAPES, &(shape)}
#define DEFINE(shape, title, text, rows)                                                           \
    const struct agt_schema_shape shape = {                                                        \
        .name = (title), .help = (text), .members = (rows), .count = CR_ARRAY_SIZE(rows)}

static const struct agt_schema_member route[] = {
    {"method", TEXT},
    {"path", TEXT},
    {"help", TEXT},
};
static DEFINE(route_shape, "Route", "Something that can be asked for.", route);

static const struct agt_schema_member routes[] = {
    {"routes", SHAPES(route_shape)},
};
DEFINE(agt_shape_routes, "Routes", "All that can be asked for.", routes);

static const struct agt_schema_member ok[] = {
    {"status", TEXT, .help = "Always \"ok\"."},
};
DEFINE(agt_shape_ok, "Ok", "Yes.", ok);

static const struct agt_schema_member health[] = {
    {"status", TEXT, .help = "\"healthy\", or \"degraded\" when runs would fail."},
    {"docker_available", FLAG, .help = "An engine answers, and runs the sandboxes."},
    {"gemini_configured", FLAG, .help = "A model key is there."},
    {"version", TEXT},
    {"sandbox_available", FLAG, .help = "sandboxd answers."},
    {"backend", TEXT, .help = "\"native\" or \"docker\".", .is_nullable = true},
    {"sandbox_version", TEXT, .is_optional = true},
    {"landlock", FLAG, .help = "Landlock confines the service."},
};
DEFINE(agt_shape_health, "Health", "What is available.", health);

static const struct agt_schema_member execution_result[] = {
    {"exit_code", WHOLE},
    {"stdout", TEXT},
    {"stderr", TEXT},
    {"duration_seconds", .type = {.kind = AGT_SCHEMA_NUMBER}},
    {"timed_out", FLAG, .help = "The wall limit ended it."},
    {"success", FLAG, .help = "It passed at the level of `verification`."},
    {"detail", .type = {AGT_SCHEMA_MESSAGE, &crisol__sandbox__v1__execute_result__descriptor},
     .help = "All that the sandbox told.", .is_nullable = true},
};
static DEFINE(execution_result_shape, "ExecutionResult", "A run of the tests in the sandbox.",
              execution_result);

static const struct agt_schema_member run[] = {
    {"task", TEXT},
    {"status", AGENT_ENUM(run_status), .is_nullable = true},
    {"iterations", WHOLE, .help = "Attempts that reached the sandbox."},
    {"plan", TEXT},
    {"files", .type = {.kind = AGT_SCHEMA_STRING_MAP},
     .help = "Texts by name: of the attempt that passed, else of the best one."},
    {"execution_result", SHAPE(execution_result_shape), .is_nullable = true},
    {"error_history", TEXTS, .help = "One text for each attempt that did not pass."},
    {"final_response", TEXT, .help = "One paragraph for a person."},
    {"run_id", TEXT},
    {"cause", AGENT_ENUM(failure_cause), .help = "Why it failed.", .is_nullable = true},
    {"verification", AGENT(verification), .help = "What was shown.", .is_nullable = true},
    {"attempts", AGENTS(attempt)},
    {"model_requested", TEXT},
    {"models_served", TEXTS},
    {"warnings", TEXTS},
    {"usage", AGENT(model_usage), .is_nullable = true},
    {"elapsed_ms", WHOLE},
    {"receipt", AGENT(receipt), .is_nullable = true},
};
DEFINE(agt_shape_run, "Run", "A run: its result, or what is known so far.", run);

static const struct agt_schema_member run_page[] = {
    {"runs", SHAPES(agt_shape_run)},
    {"next_page_token", TEXT, .help = "For the next page; empty at the end."},
};
DEFINE(agt_shape_run_page, "RunPage", "Runs, newest first, without their files.", run_page);

static const struct agt_schema_member run_id[] = {
    {"run_id", TEXT, .help = "32 hexadecimal digits."},
};
DEFINE(agt_shape_run_id, "RunId", "A run that was started.", run_id);

static const struct agt_schema_member cancelled[] = {
    {"found", FLAG, .help = "It was going on."},
};
DEFINE(agt_shape_cancelled, "Cancelled", "A run that was to be cancelled.", cancelled);

static const struct agt_schema_member resume[] = {
    {"plan", TEXT, .help = "In place of that of the run.", .is_optional = true},
    {"files", AGENTS(file), .help = "In place of those of the run.", .is_optional = true},
    {"hint", TEXT, .help = "What to tell the model, for a run that ended STALLED.",
     .is_optional = true},
};
DEFINE(agt_shape_resume, "Resume", "How to go on with a run that waits, or that ended STALLED.",
       resume);

static const struct agt_schema_member resumed[] = {
    {"run_id", TEXT, .help = "With a hint: of the new run that goes on."},
    {"seq", WHOLE,
     .help = "Of the event that told of the interrupt; with a hint: of the last one before."},
};
DEFINE(agt_shape_resumed, "Resumed", "A run that was taken up.", resumed);

static const struct agt_schema_member fork_at[] = {
    {"seq", WHOLE, .help = "State event to fork behind; before the result."},
};
DEFINE(agt_shape_fork, "Fork", "Where to fork.", fork_at);

const struct agt_schema_shape agt_shape_nothing = {.name = "Nothing", .help = "Nothing to say."};

static const struct agt_schema_member execution[] = {
    {"stdout", TEXT, .help = "Ill-formed UTF-8 replaced."},
    {"stderr", TEXT, .help = "Ill-formed UTF-8 replaced."},
    {"stdout_base64", TEXT, .help = "The bytes, when they are no UTF-8.", .is_optional = true},
    {"stderr_base64", TEXT, .help = "The bytes, when they are no UTF-8.", .is_optional = true},
    {"is_cut", FLAG, .help = "There was more output.", .is_optional = true},
    {"result", .type = {AGT_SCHEMA_MESSAGE, &crisol__sandbox__v1__execute_result__descriptor}},
};
DEFINE(agt_shape_execution, "Execution", "The end of a program.", execution);

static const struct agt_schema_member error[] = {
    {"detail", TEXT, .help = "What is wrong, and what to do."},
    {"code", TEXT, .help = "Name of the gRPC status code."},
    {"reason", TEXT, .help = "For programs.", .is_optional = true},
    {"retry_after_ms", WHOLE, .is_optional = true},
};
DEFINE(agt_shape_error, "Error", "Why there is no answer.", error);

static const struct agt_schema_member violation[] = {
    {"loc", .type = {.kind = AGT_SCHEMA_LOCATION}, .help = "Where: [\"body\", \"files\", 0]."},
    {"msg", TEXT},
    {"type", TEXT, .help = "\"missing\", \"json_invalid\" or \"value_error\"."},
};
static DEFINE(violation_shape, "ValidationError", "A member that cannot be used.", violation);

static const struct agt_schema_member invalid[] = {
    {"detail", SHAPES(violation_shape)},
};
DEFINE(agt_shape_invalid, "HTTPValidationError", "What of the request cannot be used.", invalid);

static const struct agt_schema_member judge_stage[] = {
    {"stdout", TEXT},
    {"stderr", TEXT},
    {"output", TEXT, .help = "Both, as they came."},
    {"code", WHOLE, .help = "Exit code; null when a signal ended it.", .is_nullable = true},
    {"signal", TEXT, .help = "e.g. \"SIGKILL\".", .is_nullable = true},
    {"message", TEXT, .help = "What went wrong, for a person.", .is_nullable = true},
    {"status", TEXT,
     .help = "RE exit code not 0 or a limit of its own, SG signal or memory, TO time, OL and EL "
             "too much on stdout or stderr, XX the sandbox failed.",
     .is_nullable = true},
    {"cpu_time", WHOLE, .help = "In ms."},
    {"wall_time", WHOLE, .help = "In ms."},
    {"memory", WHOLE, .help = "Highest charge, in bytes."},
};
static DEFINE(judge_stage_shape, "JudgeStage", "What became of one stage.", judge_stage);

static const struct agt_schema_member judge_answer[] = {
    {"language", TEXT},
    {"version", TEXT},
    {"run", SHAPE(judge_stage_shape), .help = "The same as compile: it was not compiled."},
    {"compile", SHAPE(judge_stage_shape), .help = "Of languages that have such a stage.",
     .is_optional = true},
};
DEFINE(agt_shape_judge_answer, "JudgeAnswer", "What became of a program.", judge_answer);

static const struct agt_schema_member judge_runtime[] = {
    {"language", TEXT},
    {"version", TEXT},
    {"aliases", TEXTS},
    {"runtime", TEXT, .help = "Where it is not called as the language.", .is_optional = true},
};
DEFINE(agt_shape_judge_runtime, "JudgeRuntime", "What can be run.", judge_runtime);

static const struct agt_schema_member judge_package[] = {
    {"language", TEXT},
    {"language_version", TEXT},
    {"installed", FLAG, .help = "Always true."},
};
DEFINE(agt_shape_judge_package, "JudgePackage", "The same, as a package.", judge_package);

static const struct agt_schema_member judge_refusal[] = {
    {"message", TEXT},
};
DEFINE(agt_shape_judge_refusal, "JudgeRefusal", "Why the program was not run.", judge_refusal);
