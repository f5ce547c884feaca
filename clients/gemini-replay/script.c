/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/gemini-replay/script.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "common/utf8.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

static const size_t MAX_FILE = 1U << 20;

#define MAX_SCRIPTS 16
#define MAX_ANSWERS 64
#define MAX_PIECES 16

static int read_file(const char *path, struct cr_buf *text, struct cr_err *err)
{
    CR_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    char block[16384];

    if (fd < 0)
        return cr_err_sys(err, errno, "open script '%s'", path);
    for (;;) {
        ssize_t size = read(fd, block, sizeof(block));
        int r;

        if (size == 0)
            break;
        if (size < 0)
            return cr_err_sys(err, errno, "read script '%s'", path);
        r = cr_buf_add(text, block, (size_t)size);
        if (r == -ENOSPC)
            return cr_err_set(err, EFBIG, "script '%s' has more than %zu bytes", path, MAX_FILE);
        if (r < 0)
            return cr_err_sys(err, -r, "keep script '%s'", path);
    }
    if (!cr_utf8_is_valid(cr_buf_str(text), text->size) || strlen(cr_buf_str(text)) != text->size)
        return cr_err_set(err, EINVAL, "script '%s' is not UTF-8 text", path);
    return 0;
}

/* An unknown member is a spelling mistake, not something to skip. */
static int check_names(const cJSON *object, const char *const *names, struct cr_err *err)
{
    const cJSON *member;

    if (!cJSON_IsObject(object)) /* what is in a list has no name */
        return cr_err_set(err, EINVAL, "it is no object");
    cJSON_ArrayForEach(member, object)
    {
        size_t i = 0;

        while (names[i] && strcmp(names[i], member->string) != 0)
            i++;
        if (!names[i])
            return cr_err_set(err, EINVAL, "unknown member '%.40s'", member->string);
    }
    return 0;
}

/* A string, or an array of strings that are its lines. Leaves *ret_text alone when absent. */
static int read_text(const cJSON *object, const char *name, char **ret_text, struct cr_err *err)
{
    const cJSON *member = cJSON_GetObjectItemCaseSensitive(object, name);
    CR_AUTO_BUF struct cr_buf text;
    const cJSON *line;
    int r = 0;

    cr_buf_init(&text, MAX_FILE);
    if (!member)
        return 0;
    if (cJSON_IsString(member)) {
        r = cr_buf_add_str(&text, member->valuestring);
    } else if (cJSON_IsArray(member)) {
        cJSON_ArrayForEach(line, member)
        {
            if (!cJSON_IsString(line))
                return cr_err_set(err, EINVAL, "'%s' holds a line that is not a string", name);
            if (r == 0 && line != member->child)
                r = cr_buf_add_char(&text, '\n');
            if (r == 0)
                r = cr_buf_add_str(&text, line->valuestring);
        }
    } else {
        return cr_err_set(err, EINVAL, "'%s' is neither a string nor a list of lines", name);
    }
    if (r == 0)
        *ret_text = cr_buf_take_str(&text);
    return *ret_text ? 0 : cr_err_set(err, ENOMEM, "out of memory for '%s'", name);
}

static int read_pieces(const cJSON *object, const char *name, char ***ret_pieces, size_t *ret_count,
                       struct cr_err *err)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(object, name);
    const cJSON *piece;

    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) > MAX_PIECES)
        return cr_err_set(err, EINVAL, "'%s' is not a list of at most %d strings", name,
                          MAX_PIECES);
    *ret_pieces = calloc(MAX_PIECES, sizeof(**ret_pieces));
    if (!*ret_pieces)
        return cr_err_set(err, ENOMEM, "out of memory for '%s'", name);
    cJSON_ArrayForEach(piece, list)
    {
        char *copy = cJSON_IsString(piece) ? strdup(piece->valuestring) : NULL;

        if (!copy)
            return cr_err_set(err, EINVAL, "'%s' holds something that is not a string", name);
        (*ret_pieces)[(*ret_count)++] = copy;
    }
    return 0;
}

static int read_match(const cJSON *object, struct replay_answer *answer, struct cr_err *err)
{
    int r = read_pieces(object, "match", &answer->match, &answer->match_count, err);

    if (r < 0 || !cJSON_HasObjectItem(object, "any"))
        return r;
    return read_pieces(object, "any", &answer->any, &answer->any_count, err);
}

static int read_error(const cJSON *object, struct replay_answer *answer, struct cr_err *err)
{
    static const char *const names[] = {"code", "status", "message", "retry_delay", NULL};
    const cJSON *error = cJSON_GetObjectItemCaseSensitive(object, "error");
    const cJSON *code = cJSON_GetObjectItemCaseSensitive(error, "code");
    int r;

    if (!error)
        return 0;
    r = check_names(error, names, err);
    if (r < 0)
        return cr_err_wrap(err, "'error'");
    if (r == 0)
        r = read_text(error, "status", &answer->error_status, err);
    if (r == 0)
        r = read_text(error, "message", &answer->error_message, err);
    if (r == 0)
        r = read_text(error, "retry_delay", &answer->retry_delay, err);
    if (r < 0)
        return r;
    if (!cJSON_IsNumber(code) || code->valueint < 400 || code->valueint > 599 ||
        !answer->error_status || !answer->error_message)
        return cr_err_set(err, EINVAL, "'error' needs code (400…599), status and message");
    answer->error_code = code->valueint;
    return 0;
}

static int read_more_calls(const cJSON *call, struct replay_answer *answer, struct cr_err *err)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(call, "more");
    const cJSON *arguments;

    if (!list)
        return 0;
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) > MAX_PIECES)
        return cr_err_set(err, EINVAL, "'more' is not a list of at most %d objects", MAX_PIECES);
    answer->more_calls = calloc(MAX_PIECES, sizeof(*answer->more_calls));
    if (!answer->more_calls)
        return cr_err_set(err, ENOMEM, "out of memory for a call");
    cJSON_ArrayForEach(arguments, list)
    {
        char *text = cJSON_IsObject(arguments) ? cJSON_PrintUnformatted(arguments) : NULL;

        if (!text)
            return cr_err_set(err, EINVAL, "'more' is a list of objects of arguments");
        answer->more_calls[answer->more_call_count++] = text;
    }
    return 0;
}

static int read_call(const cJSON *object, struct replay_answer *answer, struct cr_err *err)
{
    static const char *const names[] = {"name", "arguments", "more", NULL};
    const cJSON *call = cJSON_GetObjectItemCaseSensitive(object, "call");
    const cJSON *arguments = cJSON_GetObjectItemCaseSensitive(call, "arguments");
    int r;

    if (!call)
        return 0;
    r = check_names(call, names, err);
    if (r < 0)
        return cr_err_wrap(err, "'call'");
    if (r == 0)
        r = read_text(call, "name", &answer->call_name, err);
    if (r < 0)
        return r;
    if (!answer->call_name || !cJSON_IsObject(arguments))
        return cr_err_set(err, EINVAL, "'call' needs a name and an object of arguments");
    answer->call_arguments = cJSON_PrintUnformatted(arguments);
    if (!answer->call_arguments)
        return cr_err_set(err, ENOMEM, "out of memory for a call");
    return read_more_calls(call, answer, err);
}

static int read_answer(const cJSON *object, struct replay_answer *answer, struct cr_err *err)
{
    static const char *const names[] = {"match", "any",           "text",  "thoughts",
                                        "call",  "finish_reason", "error", NULL};
    int r = check_names(object, names, err);

    if (r == 0)
        r = read_match(object, answer, err);
    if (r == 0)
        r = read_text(object, "text", &answer->text, err);
    if (r == 0)
        r = read_text(object, "thoughts", &answer->thoughts, err);
    if (r == 0)
        r = read_text(object, "finish_reason", &answer->finish_reason, err);
    if (r == 0)
        r = read_error(object, answer, err);
    if (r == 0)
        r = read_call(object, answer, err);
    if (r < 0)
        return r;
    if ((answer->text != NULL) + (answer->error_code != 0) + (answer->call_name != NULL) != 1)
        return cr_err_set(err, EINVAL, "an answer has one of 'text', 'call' and 'error'");
    if (!answer->finish_reason)
        answer->finish_reason = strdup("STOP");
    return answer->finish_reason ? 0 : cr_err_set(err, ENOMEM, "out of memory for an answer");
}

static int read_answers(const cJSON *root, struct replay_script *script, struct cr_err *err)
{
    const cJSON *answers = cJSON_GetObjectItemCaseSensitive(root, "answers");
    const cJSON *answer;
    int count = cJSON_GetArraySize(answers);

    if (!cJSON_IsArray(answers) || count == 0 || count > MAX_ANSWERS)
        return cr_err_set(err, EINVAL, "'answers' is not a list of 1 to %d answers", MAX_ANSWERS);
    script->answers = calloc((size_t)count, sizeof(*script->answers));
    if (!script->answers)
        return cr_err_set(err, ENOMEM, "out of memory for the answers");
    cJSON_ArrayForEach(answer, answers)
    {
        int r = read_answer(answer, &script->answers[script->answer_count++], err);

        if (r < 0)
            return cr_err_wrap(err, "answer %zu", script->answer_count);
    }
    return 0;
}

static int read_script(const cJSON *root, struct replay_script *script, struct cr_err *err)
{
    static const char *const names[] = {"task", "answers", NULL};
    int r = check_names(root, names, err);

    if (r == 0)
        r = read_text(root, "task", &script->task, err);
    if (r == 0 && !script->task)
        r = cr_err_set(err, EINVAL, "'task' is missing");
    return r < 0 ? r : read_answers(root, script, err);
}

static int load_script(const char *path, struct replay_script *script, struct cr_err *err)
{
    CR_AUTO_BUF struct cr_buf text;
    const char *end = NULL;
    cJSON *root;
    int r;

    cr_buf_init(&text, MAX_FILE);
    r = read_file(path, &text, err);
    if (r < 0)
        return r;
    root = cJSON_ParseWithOpts(cr_buf_str(&text), &end, true);
    if (!root)
        return cr_err_set(err, EINVAL, "script '%s' is not JSON at byte %td", path,
                          end - cr_buf_str(&text));
    r = read_script(root, script, err);
    cJSON_Delete(root);
    if (r < 0)
        return cr_err_wrap(err, "script '%s'", path);
    return 0;
}

/* Takes the path of `size` bytes. */
static int add_script(struct replay_scripts *scripts, const char *path, size_t size,
                      struct cr_err *err)
{
    char *copy;
    int r;

    if (scripts->count == MAX_SCRIPTS)
        return cr_err_set(err, E2BIG, "more than %d scripts", MAX_SCRIPTS);
    copy = strndup(path, size);
    if (!copy)
        return cr_err_set(err, ENOMEM, "out of memory for the name of a script");
    r = load_script(copy, &scripts->items[scripts->count++], err);
    free(copy);
    return r;
}

int replay_scripts_load(const char *paths, struct replay_scripts *ret_scripts, struct cr_err *err)
{
    struct replay_scripts scripts = {.items = calloc(MAX_SCRIPTS, sizeof(*scripts.items))};
    int r = 0;

    if (!scripts.items)
        return cr_err_set(err, ENOMEM, "out of memory for the scripts");
    for (const char *path = paths; path && r == 0;) {
        const char *comma = strchr(path, ',');

        r = add_script(&scripts, path, comma ? (size_t)(comma - path) : strlen(path), err);
        path = comma ? comma + 1 : NULL;
    }
    if (r < 0) {
        replay_scripts_done(&scripts);
        return r;
    }
    *ret_scripts = scripts;
    return 0;
}

static void answer_done(struct replay_answer *answer)
{
    for (size_t i = 0; i < answer->match_count; i++)
        free(answer->match[i]);
    free(answer->match);
    for (size_t i = 0; i < answer->any_count; i++)
        free(answer->any[i]);
    free(answer->any);
    free(answer->text);
    free(answer->call_name);
    free(answer->call_arguments);
    for (size_t i = 0; i < answer->more_call_count; i++)
        free(answer->more_calls[i]);
    free(answer->more_calls);
    free(answer->thoughts);
    free(answer->finish_reason);
    free(answer->error_status);
    free(answer->error_message);
    free(answer->retry_delay);
}

void replay_scripts_done(struct replay_scripts *scripts)
{
    for (size_t i = 0; i < scripts->count; i++) {
        struct replay_script *script = &scripts->items[i];

        for (size_t j = 0; j < script->answer_count; j++)
            answer_done(&script->answers[j]);
        free(script->answers);
        free(script->task);
    }
    free(scripts->items);
    *scripts = (struct replay_scripts){0};
}

static bool fits(const struct replay_answer *answer, const char *text)
{
    for (size_t i = 0; i < answer->match_count; i++) {
        if (!strcasestr(text, answer->match[i]))
            return false;
    }
    for (size_t i = 0; i < answer->any_count; i++) {
        if (strcasestr(text, answer->any[i]))
            return true;
    }
    return answer->any_count == 0;
}

const struct replay_answer *replay_scripts_find(const struct replay_scripts *scripts,
                                                const char *request_text)
{
    for (size_t i = 0; i < scripts->count; i++) {
        const struct replay_script *script = &scripts->items[i];

        for (size_t j = 0; j < script->answer_count; j++) {
            if (fits(&script->answers[j], request_text))
                return &script->answers[j];
        }
    }
    return NULL;
}
