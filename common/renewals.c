/* SPDX-License-Identifier: Apache-2.0 */
#include "common/renewals.h"

#include "common/auto.h"
#include "common/metrics.h"

void cr_renewals_note(struct cr_renewals *renewals, enum cr_renewal what, bool is_taken)
{
    atomic_fetch_add_explicit(&renewals->counts[what][is_taken], 1, memory_order_relaxed);
}

void cr_renewals_set_end(struct cr_renewals *renewals, int64_t end_s)
{
    atomic_store_explicit(&renewals->end_s, end_s, memory_order_relaxed);
}

void cr_renewals_write(const struct cr_renewals *renewals, struct cr_metrics *metrics)
{
    static const char *const kinds[CR_RENEWAL_COUNT] = {
        [CR_RENEWAL_CERTIFICATE] = "certificate", [CR_RENEWAL_TOKEN] = "token"};
    static const char *const outcomes[] = {"refused", "taken"};

    cr_metrics_family(metrics, "secret_renewals_total", "counter",
                      "New certificates and tokens; one that is refused leaves the old in use.");
    for (size_t kind = 0; kind < CR_RENEWAL_COUNT; kind++) {
        for (size_t i = 0; i < CR_ARRAY_SIZE(outcomes); i++) {
            const struct cr_metrics_label labels[CR_METRICS_LABELS_MAX] = {
                {"kind", kinds[kind]}, {"outcome", outcomes[i]}};

            cr_metrics_count(
                metrics, labels,
                atomic_load_explicit(&renewals->counts[kind][i], memory_order_relaxed));
        }
    }
    cr_metrics_family(metrics, "tls_certificate_not_after_seconds", "gauge",
                      "End of the certificate that callers are shown, since 1970; 0: none.");
    cr_metrics_value(metrics, NULL,
                     (double)atomic_load_explicit(&renewals->end_s, memory_order_relaxed));
}
