/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct cr_metrics;

/* What is read anew while a service runs. */
enum cr_renewal {
    CR_RENEWAL_CERTIFICATE,
    CR_RENEWAL_TOKEN,
    CR_RENEWAL_COUNT
};

/*
 * What became of new certificates and tokens, for the metrics: whoever rotates
 * them must hear of a pair that does not fit, since the service goes on with
 * the old one until that has expired. Any thread. Zeroed memory is an empty
 * one.
 */
struct cr_renewals {
    atomic_uint_fast64_t counts[CR_RENEWAL_COUNT][2]; /* refused, taken */
    atomic_int_fast64_t
        end_s; /* of the certificate that is shown to callers, since 1970; 0: none */
};

void cr_renewals_note(struct cr_renewals *renewals, enum cr_renewal what, bool is_taken);

void cr_renewals_set_end(struct cr_renewals *renewals, int64_t end_s);

/* secret_renewals_total and tls_certificate_not_after_seconds. */
void cr_renewals_write(const struct cr_renewals *renewals, struct cr_metrics *metrics);
