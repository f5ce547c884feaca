/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "orchestrator/http/judge_text.h"
#include "rpc/status.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define OUT_CAP 4096

static char names[][16] = {"python", "shell", "python:old", "node", "go"};
static char versions[][24] = {"Python 3.11.2", "GNU bash 5.2.15(1)", "Python 3.9.18", "v18.19.0",
                              ""};

/* Two versions of python, two others, and one that has not been asked yet. */
static void runtimes_init(Crisol__Sandbox__V1__ListRuntimesResponse *runtimes)
{
    static Crisol__Sandbox__V1__Runtime items[CR_ARRAY_SIZE(names)];
    static Crisol__Sandbox__V1__Runtime *list[CR_ARRAY_SIZE(names)];

    crisol__sandbox__v1__list_runtimes_response__init(runtimes);
    for (size_t i = 0; i < CR_ARRAY_SIZE(names); i++) {
        crisol__sandbox__v1__runtime__init(&items[i]);
        items[i].name = names[i];
        items[i].version = versions[i];
        list[i] = &items[i];
    }
    runtimes->runtimes = list;
    runtimes->n_runtimes = CR_ARRAY_SIZE(names);
}

static const struct {
    const char *language;
    const char *version;
    const char *found; /* its version; NULL: none */
} searches[] = {
    {"python", "*", "Python 3.11.2"},
    {"py", "3.x", "Python 3.11.2"},
    {"python3", "3.11", "Python 3.11.2"},
    {"python", "3.9", "Python 3.9.18"},
    {"python", "3.9.18", "Python 3.9.18"},
    {"python", "3.9.1", NULL},
    {"python", "^3.8.0", "Python 3.11.2"},
    {"python", "^3.12.0", NULL},
    {"python", "~3.9.5", "Python 3.9.18"},
    {"python", "~3.9.20", NULL},
    {"python:old", "*", "Python 3.9.18"},
    {"python", ">=3.8 <3.11", "Python 3.9.18"},
    {"python", "3.8 - 3.10", "Python 3.9.18"},
    {"python", "2.7 || 3.9.x", "Python 3.9.18"},
    {"js", "18", "v18.19.0"},
    {"javascript", "^18.2.0", "v18.19.0"},
    {"node", "<18", NULL},
    {"python", ">=3.10.0", "Python 3.11.2"},
    {"python", ">=4", NULL},
    {"python", "2", NULL},
    {"bash", "5.2.15", "GNU bash 5.2.15(1)"},
    {"sh", "x", "GNU bash 5.2.15(1)"},
    {"golang", "1.21", ""}, /* it has not been asked yet */
    {"python", "3.11.2.1", NULL},
    {"python", "three", NULL},
    {"python", "3a", NULL},
    {"Python", "*", NULL},
    {"cobol", "*", NULL},
};

static void the_latest_version_that_fits_is_found(void **state)
{
    Crisol__Sandbox__V1__ListRuntimesResponse runtimes;

    (void)state;
    runtimes_init(&runtimes);
    for (size_t i = 0; i < CR_ARRAY_SIZE(searches); i++) {
        const Crisol__Sandbox__V1__Runtime *found =
            agt_judge_find(&runtimes, searches[i].language, searches[i].version);

        if (searches[i].found)
            assert_non_null(found);
        else
            assert_null(found);
        if (found)
            assert_string_equal(found->version, searches[i].found);
    }
}

static void runtimes_are_listed_with_plain_versions_and_aliases(void **state)
{
    Crisol__Sandbox__V1__ListRuntimesResponse runtimes;
    CR_AUTO_BUF struct cr_buf out;

    (void)state;
    cr_buf_init(&out, OUT_CAP);
    runtimes_init(&runtimes);
    runtimes.n_runtimes = 4;

    assert_int_equal(agt_judge_write_runtimes(&runtimes, &out), 0);
    assert_string_equal(
        cr_buf_str(&out),
        "[{\"language\":\"python\",\"version\":\"3.11.2\",\"aliases\":[\"py\",\"py3\",\"python3\"]},"
        "{\"language\":\"shell\",\"version\":\"5.2.15\",\"aliases\":[\"bash\",\"sh\"]},"
        "{\"language\":\"python\",\"version\":\"3.9.18\",\"aliases\":[\"py\",\"py3\",\"python3\"],"
        "\"runtime\":\"python:old\"},"
        "{\"language\":\"javascript\",\"version\":\"18.19.0\","
        "\"aliases\":[\"node-javascript\",\"node-js\",\"js\"],\"runtime\":\"node\"}]");
    cr_buf_clear(&out);
    runtimes.n_runtimes = 1;
    assert_int_equal(agt_judge_write_packages(&runtimes, &out), 0);
    assert_string_equal(
        cr_buf_str(&out),
        "[{\"language\":\"python\",\"language_version\":\"3.11.2\",\"installed\":true}]");
}

static Crisol__Judge__V1__JudgeRequest *read_request(const char *text)
{
    struct rpc_status status = RPC_STATUS_INIT;
    Crisol__Judge__V1__JudgeRequest *request = NULL;

    if (agt_judge_read(text, strlen(text), &request, &status) < 0)
        fail_msg("%s: %s", text, status.message);
    return request;
}

#define HEAD "{\"language\":\"py\",\"version\":\"*\",\"files\":"

static const struct {
    const char *text;
    const char *problem; /* "": none */
} checks[] = {
    {"{}", "language is required as a string"},
    {"{\"language\":\"py\"}", "version is required as a string"},
    {HEAD "[]}", "files is required as an array"},
    {HEAD "[{\"content\":\"x\"},{\"name\":\"a\"}]}", "files[1].content is required as a string"},
    {HEAD "[{\"content\":null}]}", "files[0].content is required as a string"},
    {HEAD "[{\"content\":\"\"}],\"stdin\":null,\"args\":null,\"run_timeout\":null}", ""},
    {HEAD "[{\"content\":\"eA==\",\"encoding\":\"base64\"}]}",
     "files must include at least one utf8 encoded file"},
    {HEAD "[{\"content\":\"x\"}],\"run_timeout\":-2}", "run_timeout must be"},
    {HEAD "[{\"content\":\"x\"}],\"run_cpu_time\":4294967296}", "run_cpu_time must be"},
    {HEAD "[{\"content\":\"x\"}],\"run_timeout\":-0.5}", "run_timeout: not a whole number"},
    {HEAD "[{\"content\":\"x\"}],\"run_timeout\":\"NaN\"}", "run_timeout: not a whole number"},
    {HEAD "[{\"content\":\"x\"}],\"run_memory_limit\":\"Infinity\"}",
     "run_memory_limit: not a whole number"},
    {HEAD "[{\"content\":\"x\"}],\"run_memory_limit\":1e19}",
     "run_memory_limit: not a whole number"},
    {HEAD "[{\"content\":\"x\"}],\"run_timeout\":true}", "run_timeout: must be a whole number"},
    {HEAD "[{\"content\":\"x\"}],\"args\":[null]}", "args[0]: must not be null"},
    {HEAD "[{\"content\":\"x\"}],\"args\":\"x\"}", "args: must be a list"},
    {HEAD "[{\"content\":\"x\"}],\"stdin\":1}", "stdin: must be text"},
    {HEAD "[{\"content\":\"x\",\"mode\":1}],\"code\":{\"a\":[1]}}", ""}, /* unknown */
    {HEAD "[{\"content\":\"x\"}],\"run_memory_limit\":-1,\"compile_memory_limit\":-1}", ""},
};

static void what_is_missing_is_told_in_the_judges_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(checks); i++) {
        const char *text = checks[i].text;
        Crisol__Judge__V1__JudgeRequest *request = NULL;
        struct rpc_status status = RPC_STATUS_INIT;
        int r = agt_judge_read(text, strlen(text), &request, &status);

        assert_int_equal(r, *checks[i].problem ? -EINVAL : 0);
        assert_memory_equal(status.message, checks[i].problem, strlen(checks[i].problem));
        crisol__judge__v1__judge_request__free_unpacked(request, NULL);
    }
}

static struct agt_judge_program *make(const Crisol__Judge__V1__JudgeRequest *request,
                                      const Crisol__Sandbox__V1__Runtime *runtime)
{
    struct agt_judge_program *program = NULL;
    struct rpc_status status = RPC_STATUS_INIT;

    assert_int_equal(agt_judge_program_new(request, runtime, &program, &status), 0);
    return program;
}

static void the_first_text_is_the_program_and_the_others_are_decoded(void **state)
{
    Crisol__Judge__V1__JudgeRequest *request = read_request(
        HEAD
        "[{\"content\":\"00fF\",\"encoding\":\"hex\"},{\"name\":\"a.py\",\"content\":\"print(1)\"},"
        "{\"content\":\"AP8=\",\"encoding\":\"base64\"},{\"name\":\"b\",\"content\":\"\"}],"
        "\"stdin\":\"in\",\"args\":[\"1\",\"2\"],\"run_timeout\":500,\"run_memory_limit\":-1,"
        "\"compile_timeout\":10000}");
    Crisol__Sandbox__V1__Runtime runtime = CRISOL__SANDBOX__V1__RUNTIME__INIT;
    struct agt_judge_program *program = make(request, &runtime);
    const Crisol__Sandbox__V1__ExecuteRequest *made = agt_judge_program_request(program);

    (void)state;
    assert_int_equal(agt_judge_code_index(request), 1);
    assert_string_equal(made->code, "print(1)");
    assert_string_equal(made->stdin_text, "in\n");
    assert_int_equal(made->n_args, 2);
    assert_int_equal(made->n_files, 3);
    assert_string_equal(made->files[0]->path, "file0.code");
    assert_int_equal(made->files[0]->data.len, 2);
    assert_memory_equal(made->files[0]->data.data, "\x00\xFF", 2);
    assert_string_equal(made->files[1]->path, "file2.code");
    assert_memory_equal(made->files[1]->data.data, "\x00\xFF", 2);
    assert_string_equal(made->files[2]->path, "b");
    assert_int_equal(made->files[2]->data.len, 0);
    assert_int_equal(made->limits->wall_time_ms, 500);
    assert_int_equal(made->limits->memory_bytes, 0);
    assert_null(made->compile_limits); /* it has no such stage */
    (void)agt_judge_program_free(program);
    crisol__judge__v1__judge_request__free_unpacked(request, NULL);
}

#define TWO(first, second)                                                                         \
    HEAD "[{\"name\":\"" first "\",\"content\":\"a\"},{\"name\":\"" second                         \
         "\",\"content\":\"b\"}],\"args\":[\"1\"]}"

static const struct {
    const char *text;
    const char *command; /* the second item of it; NULL: none */
    size_t files;        /* beside the code */
    bool is_compiled;
} named[] = {
    {HEAD "[{\"name\":\"x.py\",\"content\":\"a\"}]}", NULL, 0, false},
    {TWO("main.py", "x.py"), NULL, 1, false},
    {TWO("", "main.x"), NULL, 1, false},
    {TWO("x.py", "y.py"), "x.py", 2, false},
    {TWO("x.py", "main.py"), "x.py", 2, false},
    {TWO("x.py", "y.py"), NULL, 1, true},
    {TWO("x.py", "main.py"), NULL, 2, true}, /* all of them are compiled, under their names */
};

static Crisol__Sandbox__V1__Runtime python_runtime(void)
{
    static char interpreter[] = "/usr/bin/python3";
    static char entry[] = "main.py";
    static char *argv[] = {interpreter, entry};
    Crisol__Sandbox__V1__Runtime runtime = CRISOL__SANDBOX__V1__RUNTIME__INIT;

    runtime.entry_file = entry;
    runtime.argv = argv;
    runtime.n_argv = CR_ARRAY_SIZE(argv);
    return runtime;
}

static void one_of_several_files_has_its_own_name(void **state)
{
    Crisol__Sandbox__V1__Runtime runtime = python_runtime();

    (void)state;
    runtime.compile_argv = runtime.argv;
    for (size_t i = 0; i < CR_ARRAY_SIZE(named); i++) {
        Crisol__Judge__V1__JudgeRequest *request = read_request(named[i].text);
        struct agt_judge_program *program;
        const Crisol__Sandbox__V1__ExecuteRequest *made;

        runtime.n_compile_argv = named[i].is_compiled;
        program = make(request, &runtime);
        made = agt_judge_program_request(program);
        assert_int_equal(made->n_files, named[i].files);
        assert_int_equal(made->n_command, named[i].command ? 3 : 0);
        assert_int_equal(*made->code != '\0', named[i].files < request->n_files);
        assert_int_equal(agt_judge_hidden_index(request, &runtime),
                         *made->code ? 0 : request->n_files);
        if (named[i].command) {
            assert_string_equal(made->command[1], named[i].command);
            assert_string_equal(made->command[2], "1");
            assert_int_equal(made->n_args, 0);
        }
        (void)agt_judge_program_free(program);
        crisol__judge__v1__judge_request__free_unpacked(request, NULL);
    }
}

static const struct {
    const char *name;
    const char *argument;
} options[] = {{"-c", "./-c"}, {"+x", "./+x"}, {"a-b", "a-b"}, {"@x", "@x"}};

static void a_name_is_no_option_of_the_interpreter(void **state)
{
    const Crisol__Sandbox__V1__Runtime runtime = python_runtime();

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(options); i++) {
        char text[256];
        Crisol__Judge__V1__JudgeRequest *request;
        struct agt_judge_program *program;

        (void)snprintf(text, sizeof(text), TWO("%s", "y.py"), options[i].name);
        request = read_request(text);
        program = make(request, &runtime);
        assert_string_equal(agt_judge_program_request(program)->command[1], options[i].argument);
        assert_string_equal(agt_judge_program_request(program)->files[0]->path, options[i].name);
        (void)agt_judge_program_free(program);
        crisol__judge__v1__judge_request__free_unpacked(request, NULL);
    }
}

static void numbers_are_rounded_up_and_arguments_are_text(void **state)
{
    Crisol__Judge__V1__JudgeRequest *request =
        read_request(HEAD "[{\"content\":\"x\"},"
                          "{\"content\":\"AP\\r\\n 8=\\n\",\"encoding\":\"base64\"}],"
                          "\"args\":[1,2.5,true,\"a\"],\"run_timeout\":0.25,"
                          "\"run_cpu_time\":4294967294.5,\"run_memory_limit\":33554432.0}");
    Crisol__Sandbox__V1__Runtime runtime = CRISOL__SANDBOX__V1__RUNTIME__INIT;
    struct agt_judge_program *program = make(request, &runtime);
    const Crisol__Sandbox__V1__ExecuteRequest *made = agt_judge_program_request(program);

    (void)state;
    assert_int_equal(made->n_args, 4);
    assert_string_equal(made->args[0], "1");
    assert_string_equal(made->args[1], "2.5");
    assert_string_equal(made->args[2], "true");
    assert_int_equal(made->limits->wall_time_ms, 1);
    assert_int_equal(made->limits->cpu_time_ms, UINT32_MAX);
    assert_int_equal(made->limits->memory_bytes, 32 << 20);
    assert_int_equal(made->files[0]->data.len, 2);
    assert_memory_equal(made->files[0]->data.data, "\x00\xFF", 2);
    (void)agt_judge_program_free(program);
    crisol__judge__v1__judge_request__free_unpacked(request, NULL);
}

static void both_stages_have_the_limits_asked_for(void **state)
{
    Crisol__Judge__V1__JudgeRequest *request =
        read_request(HEAD "[{\"content\":\"\"}],\"stdin\":\"a\\n\",\"run_cpu_time\":700,"
                          "\"run_memory_limit\":1000,\"compile_timeout\":2000,"
                          "\"compile_cpu_time\":900,\"compile_memory_limit\":3000}");
    Crisol__Sandbox__V1__Runtime runtime = CRISOL__SANDBOX__V1__RUNTIME__INIT;
    static char compiler[] = "/usr/bin/gcc";
    char *argv[] = {compiler};
    struct agt_judge_program *program;
    const Crisol__Sandbox__V1__ExecuteRequest *made;

    (void)state;
    runtime.compile_argv = argv;
    runtime.n_compile_argv = 1;
    program = make(request, &runtime);
    made = agt_judge_program_request(program);
    assert_string_equal(made->code, "\n"); /* none at all would be no program */
    assert_string_equal(made->stdin_text, "a\n");
    assert_int_equal(made->limits->wall_time_ms, 3000);
    assert_int_equal(made->limits->cpu_time_ms, 700);
    assert_int_equal(made->limits->memory_bytes, 1000);
    assert_int_equal(made->compile_limits->wall_time_ms, 2000);
    assert_int_equal(made->compile_limits->cpu_time_ms, 900);
    assert_int_equal(made->compile_limits->memory_bytes, 3000);
    (void)agt_judge_program_free(program);
    crisol__judge__v1__judge_request__free_unpacked(request, NULL);
}

#define TEXT_FILE "{\"content\":\"x\"},"

static const char *const undecodable[] = {
    HEAD "[" TEXT_FILE "{\"content\":\"x\",\"encoding\":\"latin1\"}]}",
    HEAD "[" TEXT_FILE "{\"content\":\"0\",\"encoding\":\"hex\"}]}",
    HEAD "[" TEXT_FILE "{\"content\":\"0g\",\"encoding\":\"hex\"}]}",
    HEAD "[" TEXT_FILE "{\"content\":\"$$\",\"encoding\":\"base64\"}]}",
};

static void content_that_cannot_be_read_is_refused(void **state)
{
    Crisol__Sandbox__V1__Runtime runtime = CRISOL__SANDBOX__V1__RUNTIME__INIT;

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(undecodable); i++) {
        Crisol__Judge__V1__JudgeRequest *request = read_request(undecodable[i]);
        struct agt_judge_program *program = NULL;
        struct rpc_status status = RPC_STATUS_INIT;

        assert_int_equal(agt_judge_program_new(request, &runtime, &program, &status), -EINVAL);
        assert_non_null(strstr(status.message, "files[1].content"));
        crisol__judge__v1__judge_request__free_unpacked(request, NULL);
    }
}

#define V(name) CRISOL__SANDBOX__V1__VERDICT_CODE__VERDICT_CODE_##name

static const struct {
    Crisol__Sandbox__V1__VerdictCode verdict;
    int exit_code;
    int signal;
    const char *end; /* of the stage */
} ends[] = {
    {V(OK), 0, 0, "\"code\":0,\"signal\":null,\"message\":null,\"status\":null"},
    {V(NONZERO_EXIT), 7, 0, "\"code\":7,\"signal\":null,\"message\":\"why\",\"status\":\"RE\""},
    {V(SIGNALED), 0, SIGSEGV,
     "\"code\":null,\"signal\":\"SIGSEGV\",\"message\":\"why\",\"status\":\"SG\""},
    {V(SIGNALED), 0, 64,
     "\"code\":null,\"signal\":\"SIGRTMAX\",\"message\":\"why\",\"status\":\"SG\""},
    {V(WALL_TIME_LIMIT), 0, SIGKILL,
     "\"code\":null,\"signal\":\"SIGKILL\",\"message\":\"why\",\"status\":\"TO\""},
    {V(OUTPUT_LIMIT), 0, SIGKILL,
     "\"code\":null,\"signal\":\"SIGKILL\",\"message\":\"why\",\"status\":\"OL\""},
    {V(MEMORY_LIMIT), 0, SIGKILL,
     "\"code\":null,\"signal\":\"SIGKILL\",\"message\":\"why\",\"status\":\"SG\""},
    {V(SANDBOX_LOST), 0, 0, "\"code\":0,\"signal\":null,\"message\":\"why\",\"status\":\"XX\""},
    {V(COMPILE_ERROR), 1, 0, "\"code\":1,\"signal\":null,\"message\":\"why\",\"status\":\"RE\""},
};

static void each_verdict_has_its_two_letters(void **state)
{
    Crisol__Sandbox__V1__ExecuteResult result = CRISOL__SANDBOX__V1__EXECUTE_RESULT__INIT;
    Crisol__Sandbox__V1__Verdict verdict = CRISOL__SANDBOX__V1__VERDICT__INIT;
    Crisol__Sandbox__V1__CompileResult compile = CRISOL__SANDBOX__V1__COMPILE_RESULT__INIT;
    CR_AUTO_BUF struct cr_buf text;
    CR_AUTO_BUF struct cr_buf out;
    const struct agt_judge_outcome outcome = {.runtime = "python",
                                              .version = "Python 3.11.2",
                                              .result = &result,
                                              .streams = {&text, &text},
                                              .output = &text};
    char why[] = "why";

    (void)state;
    cr_buf_init(&text, OUT_CAP);
    cr_buf_init(&out, OUT_CAP);
    result.verdict = &verdict;
    verdict.message = why;
    compile.verdict = &verdict;
    for (size_t i = 0; i < CR_ARRAY_SIZE(ends); i++) {
        cr_buf_clear(&out);
        verdict.code = ends[i].verdict;
        result.exit_code = ends[i].exit_code;
        result.signal = ends[i].signal;
        compile.exit_code = ends[i].exit_code;
        result.compile = ends[i].verdict == V(COMPILE_ERROR) ? &compile : NULL;
        result.phase = result.compile ? CRISOL__SANDBOX__V1__PHASE__PHASE_COMPILE
                                      : CRISOL__SANDBOX__V1__PHASE__PHASE_RUN;
        assert_int_equal(agt_judge_write(&outcome, &out), 0);
        assert_non_null(strstr(cr_buf_str(&out), ends[i].end));
        /* A program that was not compiled has that stage twice: clients read `run` always. */
        assert_non_null(strstr(strstr(cr_buf_str(&out), "\"run\":{"), ends[i].end));
        assert_int_equal(strstr(cr_buf_str(&out), "\"compile\":{") != NULL, result.compile != NULL);
    }
}

static void a_program_that_was_compiled_has_both_stages(void **state)
{
    static char warning[] = "main.c: warning";
    Crisol__Sandbox__V1__ExecuteResult result = CRISOL__SANDBOX__V1__EXECUTE_RESULT__INIT;
    Crisol__Sandbox__V1__CompileResult compile = CRISOL__SANDBOX__V1__COMPILE_RESULT__INIT;
    Crisol__Sandbox__V1__Verdict verdict = CRISOL__SANDBOX__V1__VERDICT__INIT;
    CR_AUTO_BUF struct cr_buf text;
    CR_AUTO_BUF struct cr_buf out;
    const struct agt_judge_outcome outcome = {.runtime = "c",
                                              .version = "",
                                              .result = &result,
                                              .streams = {&text, &text},
                                              .output = &text};

    (void)state;
    cr_buf_init(&text, OUT_CAP);
    cr_buf_init(&out, OUT_CAP);
    verdict.code = V(OK);
    result.verdict = &verdict;
    result.compile = &compile;
    result.phase = CRISOL__SANDBOX__V1__PHASE__PHASE_RUN;
    assert_int_equal(agt_judge_write(&outcome, &out), -EINVAL); /* a stage has a verdict */
    compile.verdict = &verdict;
    compile.output = (ProtobufCBinaryData){.len = strlen(warning), .data = (uint8_t *)warning};
    cr_buf_clear(&out);
    assert_int_equal(agt_judge_write(&outcome, &out), 0);
    assert_non_null(strstr(cr_buf_str(&out), "\"stderr\":\"main.c: warning\""));
    assert_true(strstr(cr_buf_str(&out), "\"compile\":{") < strstr(cr_buf_str(&out), "\"run\":{"));
}

static void limits_are_named_as_the_judge_names_them(void **state)
{
    struct rpc_status status = RPC_STATUS_INIT;
    struct rpc_status told;

    (void)state;
    rpc_status_add_violation(&status, "limits.wall_time_ms", "too much");
    agt_judge_translate(&status, 0, &told);
    assert_string_equal(told.message, "run_timeout: too much");
    status = (struct rpc_status)RPC_STATUS_INIT;
    rpc_status_add_violation(&status, "compile_limits.memory_bytes", "too much");
    agt_judge_translate(&status, 0, &told);
    assert_string_equal(told.message, "compile_memory_limit: too much");
    status = (struct rpc_status)RPC_STATUS_INIT;
    rpc_status_add_violation(&status, "files[1].path", "is no path");
    agt_judge_translate(&status, 1, &told);
    assert_string_equal(told.message, "files[2].path: is no path");
    agt_judge_translate(&status, 2, &told);
    assert_string_equal(told.message, "files[1].path: is no path");
    rpc_status_set(&status, RPC_NOT_FOUND, "no such thing");
    agt_judge_translate(&status, 0, &told);
    assert_string_equal(told.message, "no such thing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_latest_version_that_fits_is_found),
        cmocka_unit_test(runtimes_are_listed_with_plain_versions_and_aliases),
        cmocka_unit_test(what_is_missing_is_told_in_the_judges_words),
        cmocka_unit_test(the_first_text_is_the_program_and_the_others_are_decoded),
        cmocka_unit_test(one_of_several_files_has_its_own_name),
        cmocka_unit_test(a_name_is_no_option_of_the_interpreter),
        cmocka_unit_test(numbers_are_rounded_up_and_arguments_are_text),
        cmocka_unit_test(both_stages_have_the_limits_asked_for),
        cmocka_unit_test(content_that_cannot_be_read_is_refused),
        cmocka_unit_test(each_verdict_has_its_two_letters),
        cmocka_unit_test(a_program_that_was_compiled_has_both_stages),
        cmocka_unit_test(limits_are_named_as_the_judge_names_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
