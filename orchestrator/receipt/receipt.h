/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/agent/v1/agent.pb-c.h"

#include <stddef.h>
#include <stdint.h>

struct cr_err;

/*
 * The receipt of a run: the digest of each thing that went into it or came
 * out of it, in order, and one digest over all of them. Whoever keeps that
 * last one (the head) apart can show later that nothing was changed; without
 * it, the receipt shows that the parts of an answer belong together. sign.h signs
 * it. Embedded in its owner; one thread.
 */
#define AGT_RECEIPT_FORMAT 1U
#define AGT_RECEIPT_LINKS_MAX 1024U
#define AGT_RECEIPT_SIGNATURE_SIZE 64U
#define AGT_RECEIPT_DIGEST_SIZE 65 /* 64 hexadecimal digits and a NUL */

struct agt_receipt_link {
    const char *kind; /* static, or `owned` */
    char *owned;      /* NULL: nothing */
    int32_t iteration;
    char digest[AGT_RECEIPT_DIGEST_SIZE];
};

struct agt_receipt {
    struct agt_receipt_link *links; /* owned */
    size_t count;
    size_t room;
    int error; /* negative errno: a link is missing, and with it the receipt */
};

/*
 * The kind of a file's link: its name for solution.py and test_solution.py,
 * else "file:" and its path, which has neither spaces nor line ends.
 */
#define AGT_RECEIPT_FILE "file:"
#define AGT_RECEIPT_KIND_MAX 128 /* bytes, and a NUL */
void agt_receipt_file_kind(const char *path, char kind[static AGT_RECEIPT_KIND_MAX]);

/* The kinds of links. */
#define AGT_RECEIPT_TASK "task"
#define AGT_RECEIPT_LIMITS "sandbox_limits"
#define AGT_RECEIPT_TERMS "terms"               /* what came with the task */
#define AGT_RECEIPT_PROMPT "prompt"             /* all that the model was given */
#define AGT_RECEIPT_SERVED "model_served"       /* as it named itself */
#define AGT_RECEIPT_ANSWER "answer"             /* as it came */
#define AGT_RECEIPT_PLAN "plan"                 /* as it was used */
#define AGT_RECEIPT_SOLUTION "solution.py"      /* as it was run */
#define AGT_RECEIPT_TESTS "test_solution.py"    /* as they were run */
#define AGT_RECEIPT_POLICY "policy_digest"      /* of a run in the sandbox */
#define AGT_RECEIPT_RUNTIME "runtime_digest"    /* the same */
#define AGT_RECEIPT_CHECK "check"               /* what a check of the evaluator gave */
#define AGT_RECEIPT_EXECUTION "execution"       /* of an attempt, as the result has it */
#define AGT_RECEIPT_VERIFICATION "verification" /* the same */
#define AGT_RECEIPT_RESULT "result"             /* last: all else that the result says */

void agt_receipt_add(struct agt_receipt *receipt, const char *kind, int32_t iteration,
                     const void *data, size_t size);
void agt_receipt_add_text(struct agt_receipt *receipt, const char *kind, int32_t iteration,
                          const char *text);
/* A further file of an attempt. */
void agt_receipt_add_file(struct agt_receipt *receipt, int32_t iteration, const char *path,
                          const char *text);
void agt_receipt_add_message(struct agt_receipt *receipt, const char *kind, int32_t iteration,
                             const ProtobufCMessage *message);
void agt_receipt_done(struct agt_receipt *receipt);

/*
 * Completes it with the result, which has no receipt yet. *ret_message is for
 * result->receipt and is freed with agt_receipt_free_message(). Returns 0 or
 * -ENOMEM.
 */
int agt_receipt_conclude(struct agt_receipt *receipt, const Crisol__Agent__V1__RunResult *result,
                         Crisol__Agent__V1__Receipt **ret_message);
void agt_receipt_free_message(Crisol__Agent__V1__Receipt *message); /* NULL is allowed */

/*
 * Checks a result against its receipt: that the head follows from the links,
 * that task, plan, files, policies, runtimes, models, executions and
 * verifications are those of the links, and that nothing else was changed.
 * `head` (NULL: any) is the one that was kept apart. Says in `err` what does
 * not fit. Returns 0, -EBADMSG, or -ENOMEM.
 */
int agt_receipt_verify(Crisol__Agent__V1__RunResult *result, const char *head, struct cr_err *err);

/* The head that follows from the links of a message. */
void agt_receipt_chain(const char *run_id, const Crisol__Agent__V1__Receipt *message,
                       char ret_head[AGT_RECEIPT_DIGEST_SIZE]);

/* sha256 as hexadecimal digits; "" when libcrypto fails. */
void agt_receipt_digest(const void *data, size_t size, char ret_digest[AGT_RECEIPT_DIGEST_SIZE]);

/* That of a message in packed form, which has its fields in the order of their numbers. Returns 0,
 * or -ENOMEM, also when libcrypto fails. */
int agt_receipt_digest_message(const ProtobufCMessage *message,
                               char ret_digest[AGT_RECEIPT_DIGEST_SIZE]);
