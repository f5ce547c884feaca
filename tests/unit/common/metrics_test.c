/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/metrics.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <string.h>

static void families_have_help_type_and_values(void **state)
{
    static const struct cr_metrics_label labels[CR_METRICS_LABELS_MAX] = {{"kind", "a"},
                                                                          {"code", "2xx"}};
    CR_AUTO_BUF struct cr_buf buf;
    struct cr_metrics metrics;

    (void)state;
    cr_buf_init(&buf, 65536);
    cr_metrics_begin(&metrics, &buf);
    cr_metrics_family(&metrics, "x_total", "counter", "Xs.");
    cr_metrics_count(&metrics, NULL, 7);
    cr_metrics_count(&metrics, labels, UINT64_MAX);
    cr_metrics_value(&metrics, NULL, 0.5);

    assert_int_equal(cr_metrics_end(&metrics), 0);
    assert_string_equal(cr_buf_str(&buf), "# HELP x_total Xs.\n# TYPE x_total counter\nx_total 7\n"
                                          "x_total{kind=\"a\",code=\"2xx\"} "
                                          "18446744073709551615\nx_total 0.5\n");
}

static void values_of_labels_are_escaped(void **state)
{
    static const struct cr_metrics_label labels[CR_METRICS_LABELS_MAX] = {{"l", "a\"b\\c\nd"}};
    CR_AUTO_BUF struct cr_buf buf;
    struct cr_metrics metrics;

    (void)state;
    cr_buf_init(&buf, 65536);
    cr_metrics_begin(&metrics, &buf);
    cr_metrics_family(&metrics, "x", "gauge", "X.");
    cr_metrics_count(&metrics, labels, 1);

    assert_non_null(strstr(cr_buf_str(&buf), "\nx{l=\"a\\\"b\\\\c\\nd\"} 1\n"));
}

static void histograms_add_up(void **state)
{
    struct cr_histogram histogram = {0};
    CR_AUTO_BUF struct cr_buf buf;
    struct cr_metrics metrics;

    (void)state;
    cr_buf_init(&buf, 65536);
    cr_histogram_note(&histogram, 5000); /* a bound belongs to its own bucket */
    cr_histogram_note(&histogram, 5001);
    cr_histogram_note(&histogram, UINT64_C(1) << 40);
    cr_metrics_begin(&metrics, &buf);
    cr_metrics_family(&metrics, "d_seconds", "histogram", "D.");
    cr_metrics_histogram(&metrics, &histogram);

    assert_non_null(strstr(cr_buf_str(&buf), "d_seconds_bucket{le=\"0.005\"} 1\n"));
    assert_non_null(strstr(cr_buf_str(&buf), "d_seconds_bucket{le=\"0.01\"} 2\n"));
    assert_non_null(strstr(cr_buf_str(&buf), "d_seconds_bucket{le=\"1800\"} 2\n"));
    assert_non_null(strstr(cr_buf_str(&buf), "d_seconds_bucket{le=\"+Inf\"} 3\n"));
    assert_non_null(strstr(cr_buf_str(&buf), "d_seconds_sum 1099511.637777\nd_seconds_count 3\n"));
}

static void the_first_failure_sticks(void **state)
{
    CR_AUTO_BUF struct cr_buf buf;
    struct cr_metrics metrics;

    (void)state;
    cr_buf_init(&buf, 16);
    cr_metrics_begin(&metrics, &buf);
    cr_metrics_family(&metrics, "too_long_for_it", "gauge", "Does not fit.");
    cr_metrics_count(&metrics, NULL, 1);

    assert_int_equal(cr_metrics_end(&metrics), -ENOSPC);
    assert_null(strstr(cr_buf_str(&buf), " 1\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_have_help_type_and_values),
        cmocka_unit_test(values_of_labels_are_escaped),
        cmocka_unit_test(histograms_add_up),
        cmocka_unit_test(the_first_failure_sticks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
