/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/crisol/request.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS_MAX 12

/* Parses a command line; the strings are copied because options may be cut in place. */
static int parse(struct cli_request *request, char **words, const char *const *line)
{
    int argc = 0;

    for (; line[argc]; argc++) {
        words[argc] = strdup(line[argc]);
        assert_non_null(words[argc]);
    }
    words[argc] = NULL;
    optind = 0; /* glibc: start anew */
    opterr = 0;
    return cli_request_parse(request, argc, words);
}

static void done(struct cli_request *request, char **words)
{
    cli_request_done(request);
    for (size_t i = 0; words[i]; i++)
        free(words[i]);
    free(request);
}

static struct cli_request *new_request(void)
{
    struct cli_request *request = malloc(sizeof(*request));

    assert_non_null(request);
    return request;
}

/* A file in a folder of its own; the caller removes both. */
static char *make_file(const char *name, const char *content)
{
    char folder[TEST_PATH_SIZE];
    char *path = NULL;
    int fd;

    test_folder_make(folder, sizeof(folder));
    assert_true(asprintf(&path, "%s/%s", folder, name) > 0);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, strlen(content)), strlen(content));
    assert_int_equal(close(fd), 0);
    return path;
}

static void remove_file(char *path)
{
    assert_int_equal(unlink(path), 0);
    *strrchr(path, '/') = '\0';
    assert_int_equal(rmdir(path), 0);
    free(path);
}

static int no_stdin(void **state)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(dup2(fd, STDIN_FILENO), STDIN_FILENO);
    return close(fd);
}

static void code_follows_the_separator_when_a_runtime_is_named(void **state)
{
    const char *const line[] = {"exec", "--runtime", "shell", "--", "echo hi; exit 3", "a", NULL};
    struct cli_request *request = new_request();
    char *words[WORDS_MAX];

    (void)state;
    assert_int_equal(parse(request, words, line), 0);

    assert_string_equal(request->message.runtime, "shell");
    assert_string_equal(request->message.code, "echo hi; exit 3");
    assert_int_equal(request->message.n_args, 1);
    assert_string_equal(request->message.args[0], "a");
    done(request, words);
}

static void runtime_is_told_by_the_file_name(void **state)
{
    static const struct {
        const char *name;
        const char *runtime;
        bool is_code;
    } cases[] = {
        {"main.py", "python", true},
        {"run.sh", "shell", true},
        {"test_it.py", "pytest", false},
        {"noext", "python", true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *path = make_file(cases[i].name, "text");
        const char *const line[] = {"exec", path, "--", "-x", NULL};
        struct cli_request *request = new_request();
        char *words[WORDS_MAX];

        assert_int_equal(parse(request, words, line), 0);

        assert_string_equal(request->message.runtime, cases[i].runtime);
        assert_string_equal(request->message.code, cases[i].is_code ? "text" : "");
        assert_int_equal(request->message.n_files, cases[i].is_code ? 0 : 1);
        assert_string_equal(request->message.args[0], "-x");
        done(request, words);
        remove_file(path);
    }
}

static void options_become_limits_files_and_environment(void **state)
{
    char *path = make_file("data.txt", "D");
    char file[300];
    struct cli_request *request = new_request();
    char *words[WORDS_MAX];

    (void)state;
    (void)snprintf(file, sizeof(file), "%s=in/data.txt", path);
    {
        const char *const line[] = {
            "exec", "--memory-mib=64", "--wall-ms=500", "--env=A=b=c", "--file",
            file,   "--runtime",       "python",        "--",          "pass",
            NULL};

        assert_int_equal(parse(request, words, line), 0);
    }
    assert_int_equal(request->message.limits->memory_bytes, 64 << 20);
    assert_int_equal(request->message.limits->wall_time_ms, 500);
    assert_string_equal(request->message.env[0]->key, "A");
    assert_string_equal(request->message.env[0]->value, "b=c");
    assert_string_equal(request->message.files[0]->path, "in/data.txt");
    assert_memory_equal(request->message.files[0]->data.data, "D", 1);
    done(request, words);
    remove_file(path);
}

static void bad_command_lines_are_refused(void **state)
{
    const char *const lines[][6] = {
        {"exec", NULL},
        {"exec", "--wall-ms=0", "x.py", NULL},
        {"exec", "--wall-ms=1s", "x.py", NULL},
        {"exec", "--env=NOVALUE", "x.py", NULL},
        {"exec", "/nonexistent/file.py", NULL},
        {"exec", "--nosuch", NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct cli_request *request = new_request();
        char *words[WORDS_MAX];

        assert_int_equal(parse(request, words, lines[i]), -EINVAL);
        done(request, words);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_follows_the_separator_when_a_runtime_is_named),
        cmocka_unit_test(runtime_is_told_by_the_file_name),
        cmocka_unit_test(options_become_limits_files_and_environment),
        cmocka_unit_test(bad_command_lines_are_refused),
    };

    return cmocka_run_group_tests(tests, no_stdin, NULL);
}
