/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct agt_model_request;
struct cr_err;

/* The pure half of the client of OpenAI's chat completions: what is sent. */

/* True for names that such servers have: "qwen2.5-coder:7b", "org/model". */
bool agt_openai_model_is_valid(const char *model);

/*
 * The body of a request, on the heap. Returns 0, -EINVAL naming the field
 * that is missing or not UTF-8, -ENOMEM.
 */
int agt_openai_request_json(const struct agt_model_request *request, const char *model,
                            char **ret_json, struct cr_err *err);

/* The same body with a seed. On the heap; NULL: no memory. */
char *agt_openai_request_vary(const char *json, uint32_t seed);
