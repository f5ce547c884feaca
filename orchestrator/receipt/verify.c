/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "orchestrator/receipt/receipt.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef Crisol__Agent__V1__Receipt receipt_message;

/* ---- the chain ---- */

static bool is_digest(const char *text)
{
    return strlen(text) == AGT_RECEIPT_DIGEST_SIZE - 1 &&
           strspn(text, "0123456789abcdef") == AGT_RECEIPT_DIGEST_SIZE - 1;
}

static int check_links(const receipt_message *receipt, struct cr_err *err)
{
    if (receipt->format != AGT_RECEIPT_FORMAT)
        return cr_err_set(err, EBADMSG, "its format is %u and this program knows %u",
                          receipt->format, AGT_RECEIPT_FORMAT);
    if (receipt->n_links == 0 || receipt->n_links > AGT_RECEIPT_LINKS_MAX)
        return cr_err_set(err, EBADMSG, "it has %zu links; from 1 to %u are possible",
                          receipt->n_links, AGT_RECEIPT_LINKS_MAX);
    if (receipt->signature.len != (receipt->key_id[0] ? AGT_RECEIPT_SIGNATURE_SIZE : 0))
        return cr_err_set(err, EBADMSG, "it names a key and has no signature, or the other way");
    for (size_t i = 0; i < receipt->n_links; i++) {
        if (!is_digest(receipt->links[i]->sha256) ||
            strlen(receipt->links[i]->kind) >= AGT_RECEIPT_KIND_MAX)
            return cr_err_set(err, EBADMSG, "link %zu is none", i + 1);
    }
    return 0;
}

static int check_head(const char *run_id, const receipt_message *receipt, const char *expected,
                      struct cr_err *err)
{
    char head[AGT_RECEIPT_DIGEST_SIZE];

    agt_receipt_chain(run_id, receipt, head);
    if (strcmp(head, receipt->head) != 0)
        return cr_err_set(err, EBADMSG, "its head does not follow from its links and the run's id");
    if (expected && strcmp(head, expected) != 0)
        return cr_err_set(err, EBADMSG, "its head is not the one that was kept");
    return 0;
}

/* ---- what the result has of it ---- */

static bool has_link(const receipt_message *receipt, const char *kind, int32_t iteration,
                     const char *digest)
{
    for (size_t i = 0; i < receipt->n_links; i++) {
        const Crisol__Agent__V1__ReceiptLink *link = receipt->links[i];

        if (strcmp(link->kind, kind) == 0 && link->iteration == iteration &&
            strcmp(link->sha256, digest) == 0)
            return true;
    }
    return false;
}

static int check_text(const receipt_message *receipt, const char *kind, int32_t iteration,
                      const char *text, struct cr_err *err)
{
    char digest[AGT_RECEIPT_DIGEST_SIZE];

    agt_receipt_digest(text, strlen(text), digest);
    if (has_link(receipt, kind, iteration, digest))
        return 0;
    return iteration > 0 ? cr_err_set(err, EBADMSG, "%s of attempt %d was changed", kind, iteration)
                         : cr_err_set(err, EBADMSG, "%s was changed", kind);
}

static int check_message(const receipt_message *receipt, const char *kind, int32_t iteration,
                         const ProtobufCMessage *message, struct cr_err *err)
{
    char digest[AGT_RECEIPT_DIGEST_SIZE];

    if (agt_receipt_digest_message(message, digest) < 0)
        return cr_err_set(err, ENOMEM, "out of memory");
    if (has_link(receipt, kind, iteration, digest))
        return 0;
    return cr_err_set(err, EBADMSG, "%s of attempt %d was changed", kind, iteration);
}

static int check_execution(const receipt_message *receipt,
                           const Crisol__Agent__V1__Attempt *attempt, struct cr_err *err)
{
    const Crisol__Sandbox__V1__EffectivePolicy *policy = attempt->execution->policy;
    int r = check_message(receipt, AGT_RECEIPT_EXECUTION, attempt->iteration,
                          &attempt->execution->base, err);

    if (r == 0 && policy)
        r = check_text(receipt, AGT_RECEIPT_POLICY, attempt->iteration, policy->digest, err);
    if (r == 0 && policy)
        r = check_text(receipt, AGT_RECEIPT_RUNTIME, attempt->iteration, policy->runtime_digest,
                       err);
    return r;
}

static int check_file(const receipt_message *receipt, int32_t iteration,
                      const Crisol__Agent__V1__File *file, struct cr_err *err)
{
    char kind[AGT_RECEIPT_KIND_MAX];

    agt_receipt_file_kind(file->path, kind);
    return check_text(receipt, kind, iteration, file->text, err);
}

static int check_attempt(const receipt_message *receipt, const Crisol__Agent__V1__Attempt *attempt,
                         struct cr_err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < attempt->n_files; i++)
        r = check_file(receipt, attempt->iteration, attempt->files[i], err);
    if (r == 0 && attempt->execution)
        r = check_execution(receipt, attempt, err);
    if (r == 0 && attempt->verification)
        r = check_message(receipt, AGT_RECEIPT_VERIFICATION, attempt->iteration,
                          &attempt->verification->base, err);
    return r;
}

/* Named first, so that a person is told what it was; the whole result comes after. */
static int check_parts(const Crisol__Agent__V1__RunResult *result, struct cr_err *err)
{
    const receipt_message *receipt = result->receipt;
    int r = check_text(receipt, AGT_RECEIPT_TASK, 0, result->task, err);

    if (r == 0 && result->plan[0])
        r = check_text(receipt, AGT_RECEIPT_PLAN, 0, result->plan, err);
    for (size_t i = 0; r == 0 && i < result->n_attempts; i++)
        r = check_attempt(receipt, result->attempts[i], err);
    return r;
}

static int check_whole(Crisol__Agent__V1__RunResult *result, struct cr_err *err)
{
    receipt_message *receipt = result->receipt;
    const Crisol__Agent__V1__ReceiptLink *last = receipt->links[receipt->n_links - 1];
    int r;

    if (strcmp(last->kind, AGT_RECEIPT_RESULT) != 0)
        return cr_err_set(err, EBADMSG, "its last link is not the result");
    result->receipt = NULL;
    r = check_message(receipt, AGT_RECEIPT_RESULT, 0, &result->base, err);
    result->receipt = receipt;
    if (r == -EBADMSG)
        return cr_err_set(err, EBADMSG, "something in the result was changed");
    return r;
}

int agt_receipt_verify(Crisol__Agent__V1__RunResult *result, const char *head, struct cr_err *err)
{
    int r;

    if (!result->receipt)
        return cr_err_set(err, EBADMSG, "the result has no receipt");
    r = check_links(result->receipt, err);
    if (r == 0)
        r = check_head(result->run_id, result->receipt, head, err);
    if (r == 0)
        r = check_parts(result, err);
    return r == 0 ? check_whole(result, err) : r;
}
