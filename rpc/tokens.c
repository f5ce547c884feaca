/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/tokens.h"

#include "common/auto.h"
#include "common/err.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#define DIGEST_SIZE 32 /* of SHA-256 */
#define NAME_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

static const char scheme[] = "Bearer ";

struct row {
    char name[RPC_TOKEN_NAME_MAX + 1]; /* "": none */
    uint8_t digest[DIGEST_SIZE];
};

struct rpc_tokens {
    pthread_mutex_t lock; /* guards below */
    struct row *rows;
    size_t count;
};

struct rpc_tokens *rpc_tokens_new(void)
{
    struct rpc_tokens *tokens = calloc(1, sizeof(*tokens));

    if (tokens)
        (void)pthread_mutex_init(&tokens->lock, NULL); /* cannot fail with default attributes */
    return tokens;
}

struct rpc_tokens *rpc_tokens_free(struct rpc_tokens *tokens)
{
    if (!tokens)
        return NULL;
    free(tokens->rows);
    (void)pthread_mutex_destroy(&tokens->lock);
    free(tokens);
    return NULL;
}

/* ---- a file of them ---- */

struct slice {
    const char *data;
    size_t size;
};

/* The next word of the line, cut off its front. */
static struct slice next_word(struct slice *line)
{
    struct slice word = {line->data, 0};

    while (line->size > 0 && (*line->data == ' ' || *line->data == '\t')) {
        line->data++;
        line->size--;
    }
    word.data = line->data;
    while (line->size > 0 && *line->data != ' ' && *line->data != '\t') {
        line->data++;
        line->size--;
        word.size++;
    }
    return word;
}

static struct slice next_line(struct slice *text)
{
    const char *end = memchr(text->data, '\n', text->size);
    struct slice line = {text->data, end ? (size_t)(end - text->data) : text->size};

    text->data += line.size + (end ? 1 : 0);
    text->size -= line.size + (end ? 1 : 0);
    if (line.size > 0 && line.data[line.size - 1] == '\r')
        line.size--;
    return line;
}

static bool is_token(struct slice word)
{
    for (size_t i = 0; i < word.size; i++) {
        if (word.data[i] <= ' ' || word.data[i] > '~')
            return false;
    }
    return word.size >= RPC_TOKEN_MIN && word.size <= RPC_TOKEN_MAX;
}

static bool is_name(struct slice word)
{
    for (size_t i = 0; i < word.size; i++) {
        if (!word.data[i] || !strchr(NAME_BYTES, word.data[i]))
            return false;
    }
    return word.size > 0 && word.size <= RPC_TOKEN_NAME_MAX;
}

static int digest(const char *data, size_t size, uint8_t ret_digest[DIGEST_SIZE])
{
    return EVP_Digest(data, size, ret_digest, NULL, EVP_sha256(), NULL) == 1 ? 0 : -ENOMEM;
}

/* Returns 1 for a row, 0 for a line that does not count, or -EINVAL. */
static int parse_line(struct slice line, struct row *row)
{
    struct slice first = next_word(&line);
    struct slice second = next_word(&line);
    struct slice token = second.size > 0 ? second : first;

    if (first.size == 0 || first.data[0] == '#')
        return 0;
    if (next_word(&line).size > 0 || !is_token(token) || (second.size > 0 && !is_name(first)))
        return -EINVAL;
    memset(row->name, 0, sizeof(row->name));
    if (second.size > 0)
        memcpy(row->name, first.data, first.size);
    return digest(token.data, token.size, row->digest) < 0 ? -EINVAL : 1;
}

static int refuse(size_t line, struct cr_err *err)
{
    return cr_err_set(err, EINVAL,
                      "line %zu is neither 'NAME TOKEN' nor the only one with a TOKEN alone, of "
                      "%u to %u printable characters without spaces (at most %u lines)",
                      line, RPC_TOKEN_MIN, RPC_TOKEN_MAX, RPC_TOKENS_MAX);
}

static int parse(struct slice text, struct row *rows, size_t *ret_count, struct cr_err *err)
{
    size_t count = 0;

    for (size_t number = 1; text.size > 0; number++) {
        struct row row;
        int r = parse_line(next_line(&text), &row);

        if (r == 0)
            continue;
        if (r < 0 || count == RPC_TOKENS_MAX || (count > 0 && (!row.name[0] || !rows[0].name[0])))
            return refuse(number, err);
        rows[count++] = row;
    }
    if (count == 0)
        return cr_err_set(err, EINVAL, "there is no token in it");
    *ret_count = count;
    return 0;
}

int rpc_tokens_load(struct rpc_tokens *tokens, const char *text, size_t size, struct cr_err *err)
{
    struct row *rows = calloc(RPC_TOKENS_MAX, sizeof(*rows));
    size_t count = 0;
    int r;

    if (!rows)
        return cr_err_set(err, ENOMEM, "out of memory for tokens");
    r = parse((struct slice){text, size}, rows, &count, err);
    if (r == 0) {
        struct row *before;

        (void)pthread_mutex_lock(&tokens->lock);
        before = tokens->rows;
        tokens->rows = rows;
        tokens->count = count;
        (void)pthread_mutex_unlock(&tokens->lock);
        rows = before;
    }
    free(rows);
    return r;
}

int rpc_tokens_read(struct rpc_tokens *tokens, int fd, struct cr_err *err)
{
    char *text = malloc(RPC_TOKENS_FILE_MAX + 1);
    size_t used = 0;
    ssize_t size = 1;
    int r = 0;

    if (!text)
        return cr_err_set(err, ENOMEM, "out of memory for tokens");
    while (r == 0 && size > 0 && used <= RPC_TOKENS_FILE_MAX) {
        size = pread(fd, text + used, RPC_TOKENS_FILE_MAX + 1 - used, (off_t)used);
        if (size < 0 && errno != EINTR)
            r = cr_err_sys(err, errno, "read the tokens");
        else if (size > 0)
            used += (size_t)size;
    }
    if (r == 0 && used > RPC_TOKENS_FILE_MAX)
        r = cr_err_set(err, EINVAL, "there are more than %zu bytes of tokens", RPC_TOKENS_FILE_MAX);
    if (r == 0)
        r = rpc_tokens_load(tokens, text, used, err);
    explicit_bzero(text, RPC_TOKENS_FILE_MAX + 1);
    free(text);
    return r;
}

/* ---- callers ---- */

/* Looks at every row, so that the time does not tell which one it was. */
static const struct row *search(const struct rpc_tokens *tokens, const uint8_t wanted[DIGEST_SIZE])
{
    const struct row *found = NULL;

    for (size_t i = 0; i < tokens->count; i++) {
        if (CRYPTO_memcmp(tokens->rows[i].digest, wanted, DIGEST_SIZE) == 0)
            found = &tokens->rows[i];
    }
    return found;
}

bool rpc_tokens_find(struct rpc_tokens *tokens, const char *authorization, size_t size,
                     char caller[64])
{
    size_t prefix = sizeof(scheme) - 1;
    uint8_t wanted[DIGEST_SIZE];
    const struct row *found;

    if (!authorization || size <= prefix || size > prefix + RPC_TOKEN_MAX ||
        strncasecmp(authorization, scheme, prefix) != 0 ||
        digest(authorization + prefix, size - prefix, wanted) < 0)
        return false;
    (void)pthread_mutex_lock(&tokens->lock);
    found = search(tokens, wanted);
    if (found)
        (void)snprintf(caller, 64, "%s%s", found->name[0] ? "token:" : "token", found->name);
    (void)pthread_mutex_unlock(&tokens->lock);
    return found != NULL;
}

size_t rpc_tokens_count(struct rpc_tokens *tokens)
{
    size_t count;

    (void)pthread_mutex_lock(&tokens->lock);
    count = tokens->count;
    (void)pthread_mutex_unlock(&tokens->lock);
    return count;
}
