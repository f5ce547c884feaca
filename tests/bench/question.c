/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/question.h"

#include "common/auto.h"
#include "common/unconst.h"
#include "tests/bench/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const true_argv[] = {"/usr/bin/true", NULL};
static const char *const python_argv[] = {"/usr/bin/python3", "-c", "pass", NULL};
static const char *const exit_first[] = {"--exitfirst", NULL};
static const char *const pytest_argv[] = {"/usr/bin/python3", "-m", "pytest", "-q", NULL};

static const struct bench_question questions[] = {
    {.name = "true", .runtime = "shell", .command = true_argv, .bare = true_argv},
    {.name = "python", .runtime = "python", .code = "pass\n", .bare = python_argv},
    {
        .name = "pytest",
        .runtime = "pytest",
        .files = {{"solution.py", "def add(a, b):\n    return a + b\n"},
                  {"test_solution.py", "from solution import add\n\n\n"
                                       "def test_add():\n    assert add(2, 3) == 5\n"}},
        .bare = pytest_argv,
        .answer = "1 passed",
    },
    {
        .name = "pytest-arguments",
        .runtime = "pytest",
        .arguments = exit_first,
        .files = {{"solution.py", "def add(a, b):\n    return a + b\n"},
                  {"test_solution.py", "from solution import add\n\n\n"
                                       "def test_add():\n    assert add(2, 3) == 5\n"}},
        .bare = pytest_argv,
        .answer = "1 passed",
    },
    {
        .name = "work",
        .runtime = "pytest",
        .files = {{"solution.py", "import time\n\n\n"
                                  "def work(seconds):\n"
                                  "    end = time.process_time() + seconds\n"
                                  "    while time.process_time() < end:\n"
                                  "        pass\n"
                                  "    return seconds\n"},
                  {"test_solution.py", "from solution import work\n\n\n"
                                       "def test_work():\n"
                                       "    with open(\"work_ms\") as file:\n"
                                       "        seconds = int(file.read()) / 1000\n"
                                       "    assert work(seconds) == seconds\n"}},
        .bare = pytest_argv,
        .answer = "1 passed",
        .has_work = true,
    },
};

const struct bench_question *bench_question_find(const char *name)
{
    for (size_t i = 0; i < CR_ARRAY_SIZE(questions); i++) {
        if (strcmp(questions[i].name, name) == 0)
            return &questions[i];
    }
    return NULL;
}

bool bench_question_is_right(const struct bench_question *question, const char *output, size_t size)
{
    if (!question->answer)
        return size == 0;
    return memmem(output, size, question->answer, strlen(question->answer)) != NULL;
}

static void add_file(struct bench_request *request, const char *path, char *text)
{
    size_t at = request->request.n_files++;

    crisol__sandbox__v1__input_file__init(&request->files[at]);
    request->files[at].path = cr_unconst(path);
    request->files[at].text = text;
    request->file_list[at] = &request->files[at];
}

void bench_request_fill(const struct bench_question *question, struct bench_request *ret_request)
{
    struct bench_request *filled = ret_request;
    Crisol__Sandbox__V1__ExecuteRequest *request = &filled->request;

    crisol__sandbox__v1__execute_request__init(request);
    crisol__sandbox__v1__limits__init(&filled->limits);
    request->limits = &filled->limits;
    request->runtime = cr_unconst(question->runtime);
    if (question->code)
        request->code = cr_unconst(question->code);
    request->command = filled->command;
    for (const char *const *word = question->command; word && *word; word++)
        filled->command[request->n_command++] = cr_unconst(*word);
    request->args = filled->arguments;
    for (const char *const *word = question->arguments; word && *word; word++)
        filled->arguments[request->n_args++] = cr_unconst(*word);
    request->files = filled->file_list;
    for (size_t i = 0; question->files[i].path; i++)
        add_file(filled, question->files[i].path, cr_unconst(question->files[i].text));
}

void bench_request_apply(const struct bench_question *question, const struct bench_options *options,
                         struct bench_request *request)
{
    request->limits.cpu_millicores = (uint32_t)options->millicores;
    request->limits.wall_time_ms = (uint32_t)options->wall_ms;
    request->limits.cpu_time_ms = (uint32_t)options->wall_ms;
    if (!question->has_work)
        return;
    (void)snprintf(request->work, sizeof(request->work), "%" PRIu64, options->work_ms);
    add_file(request, "work_ms", request->work);
}
