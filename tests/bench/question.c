/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/question.h"

#include "common/auto.h"
#include "common/unconst.h"

#include <string.h>

static const char *const true_argv[] = {"/usr/bin/true", NULL};
static const char *const python_argv[] = {"/usr/bin/python3", "-c", "pass", NULL};
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
    request->files = filled->file_list;
    for (size_t i = 0; question->files[i].path; i++) {
        crisol__sandbox__v1__input_file__init(&filled->files[i]);
        filled->files[i].path = cr_unconst(question->files[i].path);
        filled->files[i].text = cr_unconst(question->files[i].text);
        filled->file_list[i] = &filled->files[i];
        request->n_files++;
    }
}
