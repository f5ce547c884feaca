/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/response.h"

#include "common/auto.h"
#include "common/buf.h"
#include "orchestrator/graph/language.h"
#include "orchestrator/graph/run.h"

#include <string.h>

#define CAUSE(name) CRISOL__AGENT__V1__FAILURE_CAUSE__FAILURE_CAUSE_##name

/* What a failure means, for who reads no English; what the service said follows as it is. */
static const char *const spanish_causes[] = {
    [CAUSE(MAX_ITERATIONS)] = "ningún intento superó las pruebas",
    [CAUSE(STALLED)] = "los intentos se repiten",
    [CAUSE(BUDGET)] = "se agotó el presupuesto",
    [CAUSE(DEADLINE)] = "se agotó el tiempo",
    [CAUSE(MODEL_BLOCKED)] = "el proveedor del modelo se negó por su política",
    [CAUSE(MODEL_QUOTA)] = "se agotó la cuota del proveedor del modelo",
    [CAUSE(MODEL_AUTH)] = "el proveedor del modelo rechazó la clave",
    [CAUSE(MODEL_GONE)] = "el modelo no existe (o ya no existe)",
    [CAUSE(MODEL_OUTPUT)] = "no se pudieron usar las respuestas del modelo",
    [CAUSE(MODEL_UNAVAILABLE)] = "no se pudo contactar con el proveedor del modelo",
    [CAUSE(SANDBOX_UNAVAILABLE)] = "no se pudo usar el sandbox",
    [CAUSE(TAMPER)] = "las pruebas fueron manipuladas",
    [CAUSE(VACUOUS_TESTS)] = "las pruebas no demuestran nada",
    [CAUSE(INTERNAL)] = "hubo un error interno",
};

static bool ends_sentence(const char *text)
{
    size_t size = strlen(text);

    return size > 0 && strchr(".!?", text[size - 1]);
}

/* NULL when none reached a verdict. */
static const struct agt_attempt *best_of(const struct agt_run *run)
{
    return run->attempt_count > 0 ? &run->attempts[run->best] : NULL;
}

static const Crisol__Sandbox__V1__TestReport *best_report(const struct agt_run *run)
{
    const Crisol__Sandbox__V1__TestReport *report = run->attempts[run->best].execution->test_report;

    return report && report->is_present ? report : NULL;
}

/* ---- English ---- */

static void add_best_note(const struct agt_run *run, struct cr_buf *text)
{
    const struct agt_attempt *best = best_of(run);
    const Crisol__Sandbox__V1__TestReport *report;

    if (!best) {
        (void)cr_buf_add_str(text, " No attempt reached a verdict.");
        return;
    }
    report = best_report(run);
    (void)cr_buf_printf(text, " The files are those of attempt %d", best->iteration);
    if (report)
        (void)cr_buf_printf(text, ", where %u of %u tests passed", report->passed, report->tests);
    (void)cr_buf_printf(text, "; they did not pass (%s).", best->summary ? best->summary : "");
}

static void add_english(const struct agt_run *run, struct cr_buf *text)
{
    const struct agt_attempt *best = best_of(run);
    size_t count = run->attempt_count;

    if (run->node == AGT_NODE_SUCCESS && best) {
        (void)cr_buf_printf(
            text,
            "Solved at attempt %d of %d: %s in the sandbox. Shown at level "
            "%s; this does not stop: %s",
            best->iteration, run->max_iterations, best->summary ? best->summary : "",
            agt_level_name(best->verification->level), best->verification->does_not_stop);
        return;
    }
    if (run->stop == AGT_STOP_CANCEL)
        (void)cr_buf_printf(text, "Cancelled after %zu attempt%s.", count, count == 1 ? "" : "s");
    else if (run->failure)
        (void)cr_buf_printf(text, "%s%s", run->failure, ends_sentence(run->failure) ? "" : ".");
    else
        (void)cr_buf_printf(text, "Not solved: %zu attempt%s made, none passed.", count,
                            count == 1 ? " was" : "s were");
    add_best_note(run, text);
}

/* ---- Spanish ---- */

static void add_best_note_spanish(const struct agt_run *run, struct cr_buf *text)
{
    const struct agt_attempt *best = best_of(run);
    const Crisol__Sandbox__V1__TestReport *report;

    if (!best) {
        (void)cr_buf_add_str(text, " Ningún intento llegó a un veredicto.");
        return;
    }
    report = best_report(run);
    (void)cr_buf_printf(text, " Los archivos son los del intento %d", best->iteration);
    if (report)
        (void)cr_buf_printf(text, ", en el que pasaron %u de %u pruebas", report->passed,
                            report->tests);
    (void)cr_buf_printf(text, "; no lo superaron (%s).", best->summary ? best->summary : "");
}

static void add_solved_spanish(const struct agt_run *run, struct cr_buf *text)
{
    const struct agt_attempt *best = best_of(run);
    const Crisol__Sandbox__V1__TestReport *report = best_report(run);

    (void)cr_buf_printf(text, "Resuelto en el intento %d de %d", best->iteration,
                        run->max_iterations);
    if (report)
        (void)cr_buf_printf(text,
                            report->passed == 1 ? ": pasó %u prueba en el sandbox"
                                                : ": pasaron %u pruebas en el sandbox",
                            report->passed);
    (void)cr_buf_printf(text, ". Demostrado en el nivel %s; esto no detiene: %s",
                        agt_level_name(best->verification->level),
                        agt_level_does_not_stop_spanish(best->verification->level));
}

static void add_spanish(const struct agt_run *run, struct cr_buf *text)
{
    const char *cause =
        (size_t)run->cause < CR_ARRAY_SIZE(spanish_causes) ? spanish_causes[run->cause] : NULL;
    size_t count = run->attempt_count;

    if (run->node == AGT_NODE_SUCCESS) {
        add_solved_spanish(run, text);
        return;
    }
    if (run->stop == AGT_STOP_CANCEL)
        (void)cr_buf_printf(
            text, count == 1 ? "Cancelado tras %zu intento." : "Cancelado tras %zu intentos.",
            count);
    else
        (void)cr_buf_printf(text,
                            count == 1 ? "No resuelto tras %zu intento: %s%s%s%s."
                                       : "No resuelto tras %zu intentos: %s%s%s%s.",
                            count, cause ? cause : "ningún intento superó las pruebas",
                            run->failure ? " («" : "", run->failure ? run->failure : "",
                            run->failure ? "»)" : "");
    add_best_note_spanish(run, text);
}

void agt_response_add(const struct agt_run *run, struct cr_buf *text)
{
    const char *asked = run->terms ? run->terms->language : "";

    if (agt_language_choose(asked, run->task) == AGT_LANGUAGE_ES)
        add_spanish(run, text);
    else
        add_english(run, text);
}
