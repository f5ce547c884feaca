/* SPDX-License-Identifier: Apache-2.0 */
#include "crisol/agent/v1/agent.pb-c.h"
#include "orchestrator/graph/language.h"
#include "tests/harness/engine_fixture.h"
#include "tests/harness/run_reader.h"
#include "tests/harness/test.h"

#include <stdlib.h>
#include <string.h>

#define STATUS(name) CRISOL__AGENT__V1__RUN_STATUS__RUN_STATUS_##name

static void language_is_that_of_the_commonest_words(void **state)
{
    static const struct {
        const char *text;
        enum agt_language language;
    } cases[] = {
        {"Write a function that returns the sum of two numbers", AGT_LANGUAGE_EN},
        {"Escribe una función que devuelva la suma de dos números", AGT_LANGUAGE_ES},
        {"Función para ordenar una lista", AGT_LANGUAGE_ES},
        {"Quicksort in place", AGT_LANGUAGE_EN},
        {"Implementa una caché LRU con get y put en O(1)", AGT_LANGUAGE_ES},
        {"ESCRIBE UN PROGRAMA DE LA TORRE", AGT_LANGUAGE_ES},
        {"Convert de-facto dates to the ISO format", AGT_LANGUAGE_EN},
        {"quicksort", AGT_LANGUAGE_EN},
        {"", AGT_LANGUAGE_EN},
        {"\xff\xfe zwölf Boxkämpfer", AGT_LANGUAGE_EN},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(agt_language_of(cases[i].text), cases[i].language);
    assert_int_equal(agt_language_choose("es", "Write the function"), AGT_LANGUAGE_ES);
    assert_int_equal(agt_language_choose("en", "Escribe la función"), AGT_LANGUAGE_EN);
    assert_int_equal(agt_language_choose("", "Escribe la función"), AGT_LANGUAGE_ES);
}

static void fail_one(void *user, const Crisol__Sandbox__V1__ExecuteRequest *request,
                     struct double_execution *ret_execution)
{
    (void)user;
    (void)request;
    ret_execution->exit_code = 1;
    ret_execution->passed = 2;
    ret_execution->failed = 1;
}

/* Runs a task of one attempt; `language` is asked for in its terms. */
static void run_task(struct engine_fixture *fixture, const char *task, char *language,
                     struct run_reader *reader)
{
    Crisol__Agent__V1__TaskTerms terms = CRISOL__AGENT__V1__TASK_TERMS__INIT;
    struct agt_run_spec spec = {.task = task, .max_iterations = 1};
    struct rpc_status status = RPC_STATUS_INIT;
    struct agt_run *run = NULL;
    uint8_t packed[64];

    terms.language = language;
    spec.terms_size = crisol__agent__v1__task_terms__pack(&terms, packed);
    spec.terms = packed;
    assert_int_equal(agt_engine_start(fixture->engine, &spec, &run, &status), 0);
    run_reader_read(reader, run);
}

static void expect(double_sandbox_script script, const char *task, char *language, const char *text)
{
    struct engine_fixture fixture;
    struct run_reader reader;

    engine_fixture_start(&fixture, NULL, script, NULL);
    run_task(&fixture, task, language, &reader);
    if (strncmp(reader.result->final_response, text, strlen(text)) != 0)
        fail_msg("'%s' does not begin with '%s'", reader.result->final_response, text);
    run_reader_done(&reader);
    engine_fixture_stop(&fixture);
}

static void answer_is_in_the_language_of_the_task(void **state)
{
    char none[] = "";
    char es[] = "es";

    (void)state;
    expect(NULL, "Escribe una función que sume dos números", none,
           "Resuelto en el intento 1 de 1: pasaron 3 pruebas en el sandbox. Demostrado en el nivel "
           "STUBS; esto no detiene: Pruebas que solo miran una parte de los resultados");
    expect(NULL, "Write a function that adds two numbers", none, "Solved at attempt 1 of 1: ");
    expect(NULL, "Write a function that adds two numbers", es, "Resuelto en el intento 1 de 1: ");
    expect(
        fail_one, "Escribe una función que sume dos números", none,
        "No resuelto tras 1 intento: ningún intento superó las pruebas. Los archivos son los del "
        "intento 1, en el que pasaron 2 de 3 pruebas; no lo superaron (test_solution.py:14");
    expect(fail_one, "Write a function that adds two numbers", none,
           "Not solved: 1 attempt was made, none passed. The files are those of attempt 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(language_is_that_of_the_commonest_words),
        cmocka_unit_test(answer_is_in_the_language_of_the_task),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
