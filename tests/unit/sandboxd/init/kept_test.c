/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "sandboxd/init/kept.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <string.h>

#define FIELDS_3_TO_21 " T 1 7 7 0 -1 4194304 90 0 0 0 1 2 3 4 20 0 1 0 "

static void the_start_of_a_process_is_behind_its_name(void **state)
{
    static const struct {
        const char *text;
        int result;
        uint64_t start;
    } rows[] = {
        {"7 (sleep)" FIELDS_3_TO_21 "4711 2322432 200 18446744073709551615 0\n", 0, 4711},
        {"7 (sleep)" FIELDS_3_TO_21 "0", 0, 0},
        {"7 (sleep)" FIELDS_3_TO_21 "18446744073709551615 1", 0, UINT64_MAX},
        /* The program's own to choose, but for its length. */
        {"7 () T 1 2 3) (4 5)" FIELDS_3_TO_21 "4711 1", 0, 4711},
        {"7 (a\nb)" FIELDS_3_TO_21 "4711 1", 0, 4711},
        {"7 (sleep)" FIELDS_3_TO_21, -EPROTO, 0},
        {"7 (sleep)" FIELDS_3_TO_21 "-1 1", -EPROTO, 0},
        {"7 (sleep)" FIELDS_3_TO_21 "18446744073709551616 1", -EPROTO, 0},
        {"7 (sleep)" FIELDS_3_TO_21 "47x 1", -EPROTO, 0},
        {"7 (sleep) T 1 7", -EPROTO, 0},
        {"7 sleep", -EPROTO, 0},
        {"", -EPROTO, 0},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(rows); i++) {
        uint64_t start = 0;

        if (sbx_kept_parse_start(rows[i].text, &start) != rows[i].result || start != rows[i].start)
            fail_msg("row %zu: %llu", i, (unsigned long long)start);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_start_of_a_process_is_behind_its_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
