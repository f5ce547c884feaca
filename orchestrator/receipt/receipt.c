/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/receipt/receipt.h"

#include "common/auto.h"
#include "common/err.h"
#include "common/unconst.h"
#include "orchestrator/receipt/sign.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#define LINE_MAX_SIZE 320

void agt_receipt_digest(const void *data, size_t size, char ret_digest[AGT_RECEIPT_DIGEST_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    uint8_t bytes[EVP_MAX_MD_SIZE];
    unsigned int count = 0;

    ret_digest[0] = '\0';
    if (!EVP_Digest(size > 0 ? data : "", size, bytes, &count, EVP_sha256(), NULL))
        return;
    for (size_t i = 0; i < count && 2 * i + 2 < AGT_RECEIPT_DIGEST_SIZE; i++) {
        ret_digest[2 * i] = digits[bytes[i] >> 4];
        ret_digest[2 * i + 1] = digits[bytes[i] & 15];
        ret_digest[2 * i + 2] = '\0';
    }
}

/* ---- adding ---- */

static struct agt_receipt_link *new_link(struct agt_receipt *receipt)
{
    struct agt_receipt_link *links;
    size_t room = receipt->room > 0 ? 2 * receipt->room : 8;

    if (receipt->count == AGT_RECEIPT_LINKS_MAX) {
        receipt->error = -ENOSPC;
        return NULL;
    }
    if (receipt->count < receipt->room)
        return &receipt->links[receipt->count++];
    links = reallocarray(receipt->links, room, sizeof(*links));
    if (!links) {
        receipt->error = -ENOMEM;
        return NULL;
    }
    receipt->links = links;
    receipt->room = room;
    return &receipt->links[receipt->count++];
}

void agt_receipt_add(struct agt_receipt *receipt, const char *kind, int32_t iteration,
                     const void *data, size_t size)
{
    struct agt_receipt_link *link = receipt->error ? NULL : new_link(receipt);

    if (!link)
        return;
    *link = (struct agt_receipt_link){.kind = kind, .iteration = iteration};
    agt_receipt_digest(data, size, link->digest);
    if (link->digest[0] == '\0')
        receipt->error = -ENOMEM;
}

void agt_receipt_add_text(struct agt_receipt *receipt, const char *kind, int32_t iteration,
                          const char *text)
{
    agt_receipt_add(receipt, kind, iteration, text ? text : "", text ? strlen(text) : 0);
}

void agt_receipt_file_kind(const char *path, char kind[static AGT_RECEIPT_KIND_MAX])
{
    bool is_named = strcmp(path, AGT_RECEIPT_SOLUTION) == 0 || strcmp(path, AGT_RECEIPT_TESTS) == 0;

    (void)snprintf(kind, AGT_RECEIPT_KIND_MAX, "%s%s", is_named ? "" : AGT_RECEIPT_FILE, path);
}

void agt_receipt_add_file(struct agt_receipt *receipt, int32_t iteration, const char *path,
                          const char *text)
{
    char kind[AGT_RECEIPT_KIND_MAX];
    size_t before = receipt->count;
    char *owned;

    agt_receipt_file_kind(path, kind);
    agt_receipt_add_text(receipt, NULL, iteration, text);
    if (receipt->count == before)
        return;
    owned = strdup(kind);
    if (!owned)
        receipt->error = -ENOMEM;
    receipt->links[before].owned = owned;
    receipt->links[before].kind = owned ? owned : "";
}

int agt_receipt_digest_message(const ProtobufCMessage *message,
                               char ret_digest[AGT_RECEIPT_DIGEST_SIZE])
{
    size_t size = protobuf_c_message_get_packed_size(message);
    CR_AUTO_FREE uint8_t *packed = malloc(size + 1);

    if (!packed)
        return -ENOMEM;
    (void)protobuf_c_message_pack(message, packed);
    agt_receipt_digest(packed, size, ret_digest);
    return ret_digest[0] ? 0 : -ENOMEM;
}

void agt_receipt_add_message(struct agt_receipt *receipt, const char *kind, int32_t iteration,
                             const ProtobufCMessage *message)
{
    struct agt_receipt_link *link = receipt->error ? NULL : new_link(receipt);

    if (!link)
        return;
    *link = (struct agt_receipt_link){.kind = kind, .iteration = iteration};
    if (agt_receipt_digest_message(message, link->digest) < 0)
        receipt->error = -ENOMEM;
}

void agt_receipt_done(struct agt_receipt *receipt)
{
    for (size_t i = 0; i < receipt->count; i++)
        free(receipt->links[i].owned);
    free(receipt->links);
    *receipt = (struct agt_receipt){.links = NULL};
}

/* ---- the chain ---- */

/* Each step is over the one before and one link, as text that a person can repeat with sha256sum.
 */
static void step(char head[AGT_RECEIPT_DIGEST_SIZE], const char *kind, int32_t iteration,
                 const char *digest)
{
    char line[LINE_MAX_SIZE];
    int size = snprintf(line, sizeof(line), "%s %s %d %s\n", head, kind, iteration, digest);

    agt_receipt_digest(line, (size_t)size < sizeof(line) ? (size_t)size : sizeof(line) - 1, head);
}

static void begin(char head[AGT_RECEIPT_DIGEST_SIZE], const char *run_id)
{
    char line[LINE_MAX_SIZE];
    int size =
        snprintf(line, sizeof(line), "crisol receipt %u %.64s\n", AGT_RECEIPT_FORMAT, run_id);

    agt_receipt_digest(line, (size_t)size, head);
}

static Crisol__Agent__V1__Receipt *new_message(const struct agt_receipt *receipt)
{
    Crisol__Agent__V1__Receipt *message = malloc(sizeof(*message));
    Crisol__Agent__V1__ReceiptLink *links = calloc(receipt->count, sizeof(*links));

    if (message)
        crisol__agent__v1__receipt__init(message);
    if (message && links)
        message->links = calloc(receipt->count, sizeof(Crisol__Agent__V1__ReceiptLink *));
    if (!message || !links || !message->links) {
        free(message);
        free(links);
        return NULL;
    }
    message->n_links = receipt->count;
    for (size_t i = 0; i < receipt->count; i++) {
        crisol__agent__v1__receipt_link__init(&links[i]);
        links[i].kind = cr_unconst(receipt->links[i].kind);
        links[i].iteration = receipt->links[i].iteration;
        links[i].sha256 = receipt->links[i].digest;
        message->links[i] = &links[i];
    }
    return message;
}

void agt_receipt_chain(const char *run_id, const Crisol__Agent__V1__Receipt *message,
                       char ret_head[AGT_RECEIPT_DIGEST_SIZE])
{
    begin(ret_head, run_id);
    for (size_t i = 0; i < message->n_links; i++)
        step(ret_head, message->links[i]->kind, message->links[i]->iteration,
             message->links[i]->sha256);
}

int agt_receipt_conclude(struct agt_receipt *receipt, const Crisol__Agent__V1__RunResult *result,
                         Crisol__Agent__V1__Receipt **ret_message)
{
    Crisol__Agent__V1__Receipt *message;
    char head[AGT_RECEIPT_DIGEST_SIZE];

    agt_receipt_add_message(receipt, AGT_RECEIPT_RESULT, 0, &result->base);
    message = receipt->error ? NULL : new_message(receipt);
    if (!message)
        return -ENOMEM;
    agt_receipt_chain(result->run_id, message, head);
    message->format = AGT_RECEIPT_FORMAT;
    message->head = strdup(head);
    if (!message->head) {
        message->head = cr_unconst("");
        agt_receipt_free_message(message);
        return -ENOMEM;
    }
    *ret_message = message;
    return 0;
}

void agt_receipt_free_message(Crisol__Agent__V1__Receipt *message)
{
    if (!message)
        return;
    agt_receipt_drop_signature(message);
    if (message->n_links > 0)
        free(message->links[0]);
    free(message->links);
    if (message->head[0])
        free(message->head);
    free(message);
}
