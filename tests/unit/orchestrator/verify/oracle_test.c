/* SPDX-License-Identifier: Apache-2.0 */
#include "common/buf.h"
#include "common/err.h"
#include "orchestrator/verify/oracle.h"
#include "tests/harness/test.h"

#include <string.h>

#define MARK "crisol_00"

/* Three cases: a value, an exception, one without a name. */
static int judge(const char *output, bool is_whole, char *summary, size_t size)
{
    static Crisol__Agent__V1__OracleCase sum = CRISOL__AGENT__V1__ORACLE_CASE__INIT;
    static Crisol__Agent__V1__OracleCase error = CRISOL__AGENT__V1__ORACLE_CASE__INIT;
    static Crisol__Agent__V1__OracleCase list = CRISOL__AGENT__V1__ORACLE_CASE__INIT;
    static char names[][12] = {"suma", "no número"};
    static char texts[][12] = {"3", "LookupError", "[1,2]"};
    Crisol__Agent__V1__OracleCase *cases[] = {&sum, &error, &list};

    sum.name = names[0];
    sum.expected_json = texts[0];
    error.name = names[1];
    error.raises = texts[1];
    list.expected_json = texts[2];
    return agt_oracle_judge(cases, 3, MARK, output, is_whole, summary, size);
}

#define SUM MARK " 0 value 3\n"
#define ERROR MARK " 1 raised [\"KeyError\", \"LookupError\", \"Exception\"]\n"
#define LIST MARK " 2 value [1, 2]\n"
#define END MARK " end\n"

static void cases_hold_when_every_answer_is_the_one_that_is_expected(void **state)
{
    static const struct {
        const char *output;
        bool is_whole;
        int finding;
        const char *summary;
    } cases[] = {
        {SUM ERROR LIST END, true, AGT_ORACLE_SHOWN, "3 of 3 cases hold"},
        {SUM ERROR LIST END, false, AGT_ORACLE_WRONG, "did not come to its end"},
        {SUM ERROR LIST, true, AGT_ORACLE_WRONG, "did not come to its end"},
        {SUM ERROR END, true, AGT_ORACLE_WRONG, "case 3 (no answer)"},
        {SUM ERROR MARK " 2 value [1, 2]", true, AGT_ORACLE_WRONG, "case 3 (no answer)"},
        {"", true, AGT_ORACLE_WRONG, "3 of 3 cases do not hold"},
        {MARK " 0 value 4\n" ERROR LIST END, true, AGT_ORACLE_WRONG,
         "1 of 3 cases do not hold: suma (another value)"},
        {MARK " 0 value nope\n" ERROR LIST END, true, AGT_ORACLE_WRONG, "suma (another value)"},
        {MARK " 0 raised [\"KeyError\"]\n" ERROR LIST END, true, AGT_ORACLE_WRONG,
         "suma (raised KeyError)"},
        {MARK " 0 unusable null\n" ERROR LIST END, true, AGT_ORACLE_WRONG,
         "suma (a value that JSON has no form for)"},
        {SUM MARK " 1 value null\n" LIST END, true, AGT_ORACLE_WRONG, "no número (no exception)"},
        {SUM MARK " 1 raised [\"x.LookupError\",\"ValueError\"]\n" LIST END, true, AGT_ORACLE_WRONG,
         "no número (raised its own kind of ValueError)"},
        {SUM MARK " 1 raised [\"Lost\",\"KeyError\",\"LookupError\",\"AttributeError\","
                  "\"Exception\"]\n" LIST END,
         true, AGT_ORACLE_SHOWN, "3 of 3 cases hold"}, /* of two kinds */
        {SUM MARK " 1 raised [\"Any\",\"KeyError\",\"LookupError\",\"TypeError\","
                  "\"ValueError\",\"Exception\"]\n" LIST END,
         true, AGT_ORACLE_WRONG, "no número (raised an exception of more than 2 unrelated kinds)"},
        {SUM MARK " 1 raised [\"BrokenPipeError\",\"OSError\",\"LookupError\",\"BaseException\"]"
                  "\n" LIST END,
         true, AGT_ORACLE_SHOWN, "3 of 3 cases hold"}, /* the first is a kind of the second */
        {MARK " 0 value 1e999\n" ERROR LIST END, true, AGT_ORACLE_WRONG, "suma (another value)"},
        {MARK " import [\"NameError\"]\n" END, true, AGT_ORACLE_WRONG,
         "could not be imported (raised NameError)"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char summary[320];

        assert_int_equal(judge(cases[i].output, cases[i].is_whole, summary, sizeof(summary)),
                         cases[i].finding);
        assert_non_null(strstr(summary, cases[i].summary));
    }
}

static void forged_answers_are_refused(void **state)
{
    static const char *const outputs[] = {
        "0 value 3\n" SUM ERROR LIST END,       /* without the mark */
        "crisol_01 0 value 3\n" ERROR LIST END, /* another one */
        SUM SUM ERROR LIST END,                 /* twice */
        MARK " 0 value 4\n" SUM ERROR LIST END, /* two answers */
        ERROR SUM LIST END,                     /* not in order */
        SUM ERROR LIST MARK " 3 value 3\n" END, /* one too many */
        SUM ERROR LIST END "more\n",            /* behind the end */
        SUM ERROR LIST END END,
        SUM "\n" ERROR LIST END,                           /* an empty line */
        SUM MARK " 1 values 3\n" LIST END,                 /* a kind that is none */
        SUM MARK " import [\"A\",\"b\"]\n" ERROR LIST END, /* in the middle */
        MARK " import [\"A\",\"b\"]\n" SUM ERROR LIST END,
        MARK " -1 value 3\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(outputs) / sizeof(outputs[0]); i++) {
        char summary[320];

        assert_int_equal(judge(outputs[i], true, summary, sizeof(summary)), AGT_ORACLE_TAMPERED);
    }
}

/* A program that puts its questions into the names of its classes. */
static void what_the_program_chose_is_not_repeated(void **state)
{
    static const char *const outputs[] = {
        MARK " 0 raised [\"f(1) + 2\", \"Exception\"]\n" ERROR LIST END,
        MARK " 0 raised [\"f(1) + 2\", 3, {}]\n" ERROR LIST END,
        MARK " 0 raised \"f(1) + 2\"\n" ERROR LIST END,
        MARK " 0 unusable \"f(1) + 2\"\n" ERROR LIST END,
        MARK " 0 value \"f(1) + 2\"\n" ERROR LIST END,
        MARK " import [\"f(1) + 2\", \"f(1) + 2\"]\n" END,
    };

    (void)state;
    for (size_t i = 0; i < sizeof(outputs) / sizeof(outputs[0]); i++) {
        char summary[320];

        assert_int_equal(judge(outputs[i], true, summary, sizeof(summary)), AGT_ORACLE_WRONG);
        assert_null(strstr(summary, "f(1)"));
    }
}

static void questions_hold_no_answer(void **state)
{
    Crisol__Agent__V1__OracleCase item = CRISOL__AGENT__V1__ORACLE_CASE__INIT;
    Crisol__Agent__V1__OracleCase *cases[] = {&item};
    char expression[] = "f(\"a\")";
    char setup[] = "x = 1\n";
    char expected[] = "\"secret\"";
    char name[] = "secret name";
    struct cr_buf buf;

    (void)state;
    item.name = name;
    item.setup = setup;
    item.expression = expression;
    item.expected_json = expected;
    cr_buf_init(&buf, 4096);
    assert_int_equal(agt_oracle_add_questions(cases, 1, MARK, &buf), 0);
    assert_string_equal(cr_buf_str(&buf), "{\"questions\":[{\"setup\":\"x = 1\\n\",\"expression\":"
                                          "\"f(\\\"a\\\")\"}],\"mark\":\"" MARK "\"}");
    cr_buf_done(&buf);
    assert_int_equal(agt_oracle_check_json(expected, NULL), 0);
    assert_int_equal(agt_oracle_check_json("secret", NULL), -EINVAL);
    assert_non_null(strstr(agt_oracle_driver, "import solution"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cases_hold_when_every_answer_is_the_one_that_is_expected),
        cmocka_unit_test(forged_answers_are_refused),
        cmocka_unit_test(what_the_program_chose_is_not_repeated),
        cmocka_unit_test(questions_hold_no_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
