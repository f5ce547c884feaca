/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "orchestrator/model/catalog.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void lines_say_what_models_cost_and_how_they_are_asked(void **state)
{
    static const char text[] = "# dollars per million tokens\n"
                               "\n"
                               "gemini-2.5-flash input=0.30 output=2.5 temperature=0.7 # cheap\r\n"
                               "\tgemini-2.5-*\tinput=1.25 output=10 thinking=auto\n"
                               "local:7b max-output=4096 thinking=0";
    struct agt_catalog *catalog = NULL;
    const struct agt_catalog_entry *entry;

    (void)state;
    assert_int_equal(agt_catalog_parse(text, strlen(text), &catalog, NULL), 0);
    entry = agt_catalog_find(catalog, "gemini-2.5-flash");
    assert_true(entry->has_price && entry->has_temperature && !entry->has_thinking);
    assert_int_equal(entry->input_price, 300000);
    assert_true(entry->temperature > 0.69 && entry->temperature < 0.71);
    assert_int_equal(agt_catalog_cost(entry, 1000000, 1000000), 2800000);
    assert_int_equal(agt_catalog_cost(entry, 1, 0), 1); /* 0.3, rounded up */
    assert_int_equal(agt_catalog_cost(entry, UINT32_MAX, UINT32_MAX), 12025908426);
    entry = agt_catalog_find(catalog, "gemini-2.5-pro");
    assert_int_equal(entry->output_price, 10000000);
    assert_int_equal(entry->thinking_budget, -1);
    entry = agt_catalog_find(catalog, "local:7b");
    assert_false(entry->has_price);
    assert_int_equal(entry->max_output_tokens, 4096);
    assert_int_equal(entry->thinking_budget, 0);
    assert_null(agt_catalog_find(catalog, "local:70b"));
    assert_null(agt_catalog_find(catalog, "gemini-2"));
    assert_null(agt_catalog_find(NULL, "local:7b"));
    catalog = agt_catalog_free(catalog);
}

static void what_is_not_understood_names_its_line(void **state)
{
    static const struct {
        const char *text;
        const char *words[2];
    } cases[] = {
        {"a input=1 output=1\nb temprature=1\n", {"line 2: ", "temprature"}},
        {"a input=1", {"line 1: ", "belong together"}},
        {"a input=-1 output=1", {"line 1: ", "no price"}},
        {"a input=1e3 output=1", {"line 1: ", "no price"}},
        {"a input=1.1234567 output=1", {"line 1: ", "no price"}},
        {"a input=1000.1 output=1", {"line 1: ", "no price"}},
        {"a input=1. output=1", {"line 1: ", "no price"}},
        {"a input= output=1", {"line 1: ", "no price"}},
        {"a input=1 input=1 output=1", {"line 1: ", "there twice"}},
        {"a temperature=2.1", {"line 1: ", "temperature"}},
        {"a max-output=1.5", {"line 1: ", "no number"}},
        {"a thinking=-2", {"line 1: ", "no number"}},
        {"input=1 output=1", {"line 1: ", "no name of a model"}},
        {"a*b input=1 output=1", {"line 1: ", "no name of a model"}},
        {"\n\na b=1 c d e f g", {"line 3: ", "too much"}},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        struct agt_catalog *catalog = NULL;
        struct cr_err err = CR_ERR_INIT;

        assert_int_equal(agt_catalog_parse(cases[i].text, strlen(cases[i].text), &catalog, &err),
                         -EINVAL);
        assert_null(catalog);
        if (!strstr(err.text, cases[i].words[0]) || !strstr(err.text, cases[i].words[1]))
            fail_msg("%zu: %s", i, err.text);
    }
}

static void a_file_that_is_not_there_is_named(void **state)
{
    struct agt_catalog *catalog = NULL;
    struct cr_err err = CR_ERR_INIT;

    (void)state;
    assert_int_equal(agt_catalog_load("/nonexistent/models", &catalog, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/nonexistent/models"));
    assert_int_equal(agt_catalog_load("/dev/zero", &catalog, &err), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_say_what_models_cost_and_how_they_are_asked),
        cmocka_unit_test(what_is_not_understood_names_its_line),
        cmocka_unit_test(a_file_that_is_not_there_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
