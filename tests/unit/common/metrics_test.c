/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/metrics.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
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
    static const struct cr_metrics_label labels[CR_METRICS_LABELS_MAX] = {{"k", "v"}};
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
    cr_metrics_histogram(&metrics, labels, &histogram);

    assert_non_null(strstr(cr_buf_str(&buf), "d_seconds_bucket{k=\"v\",le=\"0.005\"} 1\n"));
    assert_non_null(strstr(cr_buf_str(&buf), "d_seconds_bucket{k=\"v\",le=\"0.01\"} 2\n"));
    assert_non_null(strstr(cr_buf_str(&buf), "d_seconds_bucket{k=\"v\",le=\"1800\"} 2\n"));
    assert_non_null(strstr(cr_buf_str(&buf), "d_seconds_bucket{k=\"v\",le=\"+Inf\"} 3\n"));
    assert_non_null(strstr(cr_buf_str(&buf), "d_seconds_sum{k=\"v\"} 1099511.637777\n"
                                             "d_seconds_count{k=\"v\"} 3\n"));
}

/* Every family that dashboards of processes use, each with a value that can be. */
static void a_process_tells_about_itself(void **state)
{
    static const char *const families[] = {"process_cpu_seconds_total",
                                           "process_start_time_seconds",
                                           "process_open_fds",
                                           "process_max_fds",
                                           "process_virtual_memory_bytes",
                                           "process_resident_memory_bytes",
                                           "process_threads"};
    CR_AUTO_BUF struct cr_buf buf;
    struct cr_metrics metrics;

    (void)state;
    cr_buf_init(&buf, 65536);
    cr_metrics_begin(&metrics, &buf);
    cr_metrics_process(&metrics, 1500);

    assert_int_equal(cr_metrics_end(&metrics), 0);
    assert_non_null(strstr(cr_buf_str(&buf), "\nprocess_start_time_seconds 1.5\n"));
    for (size_t i = 0; i < CR_ARRAY_SIZE(families); i++) {
        char line[64];
        const char *found;

        (void)snprintf(line, sizeof(line), "\n%s ", families[i]);
        found = strstr(cr_buf_str(&buf), line);
        assert_non_null(found);
        assert_true(strtod(found + strlen(line), NULL) > 0);
    }
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
        cmocka_unit_test(a_process_tells_about_itself),
        cmocka_unit_test(the_first_failure_sticks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
