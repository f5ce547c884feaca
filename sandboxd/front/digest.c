/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/digest.h"

#include "common/buf.h"
#include "sandboxd/runtimes/table.h"

#include <stdint.h>
#include <stdio.h>

#include <openssl/evp.h>

#define TEXT_MAX (64U << 10)

void sbx_digest(const void *data, size_t size, char ret_digest[SBX_DIGEST_SIZE])
{
    uint8_t bytes[EVP_MAX_MD_SIZE];
    unsigned int count = 0;

    ret_digest[0] = '\0';
    if (!EVP_Digest(data, size, bytes, &count, EVP_sha256(), NULL))
        return;
    for (unsigned int i = 0; i < count && 2 * i + 2 < SBX_DIGEST_SIZE; i++)
        (void)snprintf(ret_digest + 2 * (size_t)i, 3, "%02x", bytes[i]);
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
    r = cr_buf_printf(&text, "%s\nrootfs %d\n", runtime->name, (int)runtime->rootfs);
    if (r == 0)
        r = add_list(&text, runtime->argv);
    if (r == 0)
        r = add_list(&text, sbx_environment);
    if (r == 0)
        r = add_list(&text, runtime->environment);
    if (r == 0)
        sbx_digest(text.data, text.size, ret_digest);
}
