/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agt_model_request;
struct cr_err;

/* The pure half of the Gemini client: what is sent. */

/*
 * True for names that may stand in a URL's path: "m", "models/m" or
 * "tunedModels/m" of letters, digits, '.', '_', '-' and '@'.
 */
bool agt_gemini_model_is_valid(const char *model);

/*
 * "BASE/v1beta/models/MODEL" + `action` (":streamGenerateContent?alt=sse",
 * ""). A base that names its version (".../v1", or Vertex AI's path up to
 * ".../publishers/google") keeps it. On the heap.
 * Returns 0 or -ENOMEM.
 */
int agt_gemini_url(const char *base_url, const char *model, const char *action, char **ret_url);

/*
 * The body of a request, on the heap; the model's name is in the URL. Thinking and sampling are
 * left to the provider; the token limit is sent when the request has one. Returns 0, -EINVAL naming
 * the field that is missing or not UTF-8, -ENOMEM.
 */
int agt_gemini_request_json(const struct agt_model_request *request, const char *model,
                            char **ret_json, struct cr_err *err);

/* The same body with as little thinking as this model allows. On the heap; NULL: no memory. */
char *agt_gemini_request_relax(const char *json, const char *model);

/* The same body with a seed, so that the model takes another way. On the heap; NULL: no memory. */
char *agt_gemini_request_vary(const char *json, uint32_t seed);
