/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/metrics.h"
#include "common/renewals.h"
#include "tests/harness/test.h"

#include <string.h>

static void renewals_are_counted_by_kind_and_outcome(void **state)
{
    struct cr_renewals renewals = {.end_s = 0};
    struct cr_metrics metrics;
    CR_AUTO_BUF struct cr_buf page;

    (void)state;
    cr_buf_init(&page, 4096);
    cr_renewals_note(&renewals, CR_RENEWAL_CERTIFICATE, true);
    cr_renewals_note(&renewals, CR_RENEWAL_CERTIFICATE, false);
    cr_renewals_note(&renewals, CR_RENEWAL_CERTIFICATE, false);
    cr_renewals_note(&renewals, CR_RENEWAL_TOKEN, true);
    cr_renewals_set_end(&renewals, 1893456000);

    cr_metrics_begin(&metrics, &page);
    cr_renewals_write(&renewals, &metrics);
    assert_int_equal(cr_metrics_end(&metrics), 0);
    assert_non_null(strstr(cr_buf_str(&page), "{kind=\"certificate\",outcome=\"refused\"} 2\n"));
    assert_non_null(strstr(cr_buf_str(&page), "{kind=\"certificate\",outcome=\"taken\"} 1\n"));
    assert_non_null(strstr(cr_buf_str(&page), "{kind=\"token\",outcome=\"refused\"} 0\n"));
    assert_non_null(strstr(cr_buf_str(&page), "{kind=\"token\",outcome=\"taken\"} 1\n"));
    assert_non_null(strstr(cr_buf_str(&page), "tls_certificate_not_after_seconds 1893456000\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(renewals_are_counted_by_kind_and_outcome),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
