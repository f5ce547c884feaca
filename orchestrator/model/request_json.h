/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct cJSON;
struct cr_err;

/* What the requests of all providers are written with. */

/* Adds a text that is JSON already. False: no memory. */
bool agt_request_add_json(struct cJSON *object, const char *name, const char *json);

/* Frees the tree. Its text, on the heap, if `is_whole` says that all of it is there; else NULL. */
char *agt_request_take_text(struct cJSON *take_root, bool is_whole);

/* The same for a whole body. Returns 0 or -ENOMEM. */
int agt_request_take_body(struct cJSON *take_root, bool is_whole, char **ret_json,
                          struct cr_err *err);

/* Puts the seed into `object`, in place of one that is there. False: no memory. */
bool agt_request_set_seed(struct cJSON *object, uint32_t seed);
