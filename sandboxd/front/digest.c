/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/digest.h"

#include "common/buf.h"
#include "common/err.h"
#include "common/hash.h"
#include "sandboxd/runtimes/table.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <openssl/evp.h>

#define TEXT_MAX (64U << 10)
#define PIECE_BYTES (16U << 10)

static void print_digest(const uint8_t *bytes, unsigned int count, char ret_digest[SBX_DIGEST_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    size_t at = 0;

    for (unsigned int i = 0; i < count && at + 2 < SBX_DIGEST_SIZE; i++) {
        ret_digest[at++] = digits[bytes[i] >> 4];
        ret_digest[at++] = digits[bytes[i] & 15U];
    }
    ret_digest[at] = '\0';
}

void sbx_digest(const void *data, size_t size, char ret_digest[SBX_DIGEST_SIZE])
{
    uint8_t bytes[EVP_MAX_MD_SIZE];
    unsigned int count = 0;

    ret_digest[0] = '\0';
    if (EVP_Digest(data, size, bytes, &count, EVP_sha256(), NULL))
        print_digest(bytes, count, ret_digest);
}

static int update_from_file(EVP_MD_CTX *context, int fd)
{
    uint8_t piece[PIECE_BYTES];
    off_t at = 0;

    for (;;) {
        ssize_t n = pread(fd, piece, sizeof(piece), at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        if (!EVP_DigestUpdate(context, piece, (size_t)n))
            return -ENOMEM;
        at += n;
    }
}

int sbx_digest_file(int fd, char ret_digest[SBX_DIGEST_SIZE], struct cr_err *err)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    uint8_t bytes[EVP_MAX_MD_SIZE];
    unsigned int count = 0;
    int r = -ENOMEM;

    if (context && EVP_DigestInit_ex(context, EVP_sha256(), NULL))
        r = update_from_file(context, fd);
    if (r == 0 && !EVP_DigestFinal_ex(context, bytes, &count))
        r = -ENOMEM;
    EVP_MD_CTX_free(context);
    if (r < 0)
        return cr_err_sys(err, -r, "hash the program");
    print_digest(bytes, count, ret_digest);
    return 0;
}

static int add_list(struct cr_buf *text, const char *const *list)
{
    int r = 0;

    for (; r == 0 && *list; list++)
        r = cr_buf_printf(text, "%s\n", *list);
    return r == 0 ? cr_buf_add_char(text, '\n') : r;
}

void sbx_digest_runtime(const struct sbx_runtime *runtime, char ret_digest[SBX_DIGEST_SIZE])
{
    CR_AUTO_BUF struct cr_buf text;
    int r;

    ret_digest[0] = '\0';
    cr_buf_init(&text, TEXT_MAX);
    r = cr_buf_printf(&text, "%s\nrootfs %d %s\n", runtime->name, (int)runtime->rootfs,
                      runtime->root);
    if (r == 0)
        r = add_list(&text, runtime->compile);
    if (r == 0)
        r = add_list(&text, runtime->argv);
    if (r == 0)
        r = add_list(&text, sbx_environment);
    if (r == 0)
        r = add_list(&text, runtime->environment);
    if (r == 0)
        sbx_digest(text.data, text.size, ret_digest);
}

uint64_t sbx_digest_caller(const char *name)
{
    return cr_hash(CR_HASH_START, name, strlen(name));
}
