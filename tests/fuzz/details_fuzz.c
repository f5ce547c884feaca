/* SPDX-License-Identifier: Apache-2.0 */

/* google.rpc.Status as a foreign server may send it, and the index of descriptors. */
#include "rpc/descriptors.h"
#include "rpc/details.h"
#include "rpc/status.h"
#include "tests/fuzz/fuzz.h"

static void parse_again(const struct rpc_status *status)
{
    struct rpc_status again = RPC_STATUS_INIT;
    uint8_t *packed = NULL;
    size_t size = 0;

    FUZZ_CHECK(rpc_details_pack(status, &packed, &size) == 0);
    /* We send only what we accept. */
    FUZZ_CHECK(size == 0 || rpc_details_parse(packed, size, &again) == 0);
    FUZZ_CHECK(again.retry_after_ms == status->retry_after_ms);
    free(packed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rpc_descriptors *descriptors = NULL;
    struct rpc_status status = RPC_STATUS_INIT;

    if (rpc_details_parse(data, size, &status) == 0)
        parse_again(&status);
    if (rpc_descriptors_new(data, size, &descriptors, NULL) == 0) {
        struct rpc_descriptors_file files[RPC_DESCRIPTORS_FILES_MAX];
        int file = rpc_descriptors_find_symbol(descriptors, "p.M");

        FUZZ_CHECK(file < 0 || rpc_descriptors_closure(descriptors, file, files) > 0);
        (void)rpc_descriptors_free(descriptors);
    }
    return 0;
}
