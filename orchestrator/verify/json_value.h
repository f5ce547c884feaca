/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct cr_err;

/*
 * A JSON value that is there to be compared: whole numbers of any size are
 * exact, which no double could be.
 */
struct agt_json_value;

/* Returns 0, -EINVAL with what is wrong, or -ENOMEM. Untrusted text is fine. Pure. */
int agt_json_value_parse(const char *text, size_t size, struct agt_json_value **ret_value,
                         struct cr_err *err);
void agt_json_value_free(struct agt_json_value *value); /* NULL is allowed */

/* Whole numbers are equal when their digits are; with a fraction or an exponent on either side,
 * when they differ by at most 1e-9 of the larger. The order of keys does not count. */
bool agt_json_value_equals(const struct agt_json_value *a, const struct agt_json_value *b);
