/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "common/log.h"
#include "crisol/journal/v1/journal.pb-c.h"
#include "orchestrator/receipt/receipt.h"
#include "orchestrator/replay/replay_run.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

/*
 * Files for `crisol replay`, which may come from anybody: as they are, where
 * the digest keeps nearly all of them out, and again with a digest that fits,
 * as whoever makes such a file would give it. Each is repeated, or refused
 * with a sentence.
 */
static void repeat(const void *data, size_t size)
{
    struct agt_replay_report report = {.events = 0};
    struct cr_err err = CR_ERR_INIT;
    int r = agt_replay_run(data, size, &report, &err);

    FUZZ_CHECK(r == 0 || err.text[0] != '\0');
    FUZZ_CHECK(r != 0 || (report.events > 0 && report.compared <= report.events));
    FUZZ_CHECK(r != 0 || report.different_at == 0 || report.difference[0] != '\0');
}

static uint8_t *pack(const Crisol__Journal__V1__RunExport *export, size_t *ret_size)
{
    uint8_t *packed;

    *ret_size = crisol__journal__v1__run_export__get_packed_size(export);
    packed = malloc(*ret_size + 1);
    if (packed)
        (void)crisol__journal__v1__run_export__pack(export, packed);
    return packed;
}

static void seal_and_repeat(Crisol__Journal__V1__RunExport *export)
{
    char *stated = export->sha256;
    char digest[AGT_RECEIPT_DIGEST_SIZE] = "";
    uint8_t *packed;
    size_t size;

    export->sha256 = digest;
    packed = pack(export, &size);
    if (packed)
        agt_receipt_digest(packed, size, digest);
    free(packed);
    packed = pack(export, &size);
    if (packed)
        repeat(packed, size);
    free(packed);
    export->sha256 = stated;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Crisol__Journal__V1__RunExport *export;

    cr_log_setup("fuzz", CR_LOG_ERROR, CR_LOG_TEXT);
    repeat(data, size);
    export = crisol__journal__v1__run_export__unpack(NULL, size, data);
    if (!export)
        return 0;
    seal_and_repeat(export);
    crisol__journal__v1__run_export__free_unpacked(export, NULL);
    return 0;
}
