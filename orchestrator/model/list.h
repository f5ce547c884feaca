/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/model/model.h"

struct agt_provider;

/* Inside of the model client: which models there are. */

#define AGT_LIST_MAX 1000U /* names that are kept */

/* Owned strings. */
struct agt_names {
    char **items;
    size_t count;
};

void agt_names_done(struct agt_names *names);

/*
 * Adds the names in one page of a list: Gemini's and Vertex AI's models that
 * can generate, or OpenAI's. *ret_next is the token of the next page, on the
 * heap, or NULL. Returns 0, -EBADMSG when it is no such list, -ENOMEM. Pure.
 */
int agt_names_parse(const void *json, size_t size, struct agt_names *names, char **ret_next);

/* As agt_model_ops.list. */
int agt_provider_list(struct agt_provider *provider, int64_t deadline_ns,
                      void (*on_list)(void *user, const struct agt_model_list *list), void *user,
                      struct cr_err *err);
