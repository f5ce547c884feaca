/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/model/reply.h"
#include "orchestrator/model/verdict.h"

/*
 * What tells one provider's interface from another's: addresses, what is
 * sent, what comes back, and how its settings are called. Everything else
 * (calls, retries, verdicts, deadlines, secrets) is the same for all.
 */
enum agt_target {
    AGT_TARGET_ASK,   /* POST: an answer as a stream */
    AGT_TARGET_ENTRY, /* GET: one model */
    AGT_TARGET_LIST,  /* GET: the models */
};

struct agt_dialect {
    const struct agt_provider_names *names;
    const char *default_url;
    const char *default_model; /* NULL: one has to be named */
    bool needs_key;
    bool has_entries;       /* AGT_TARGET_ENTRY tells whether a model is there */
    const char *key_header; /* what comes before the key in its header */
    bool (*is_model_valid)(const char *model);
    /* On the heap. Returns 0 or -ENOMEM. */
    int (*url)(const char *base_url, const char *model, enum agt_target target, char **ret_url);
    /* On the heap. Returns 0, -EINVAL naming the field, -ENOMEM. */
    int (*request_json)(const struct agt_model_request *request, const char *model, char **ret_json,
                        struct cr_err *err);
    /* The same body with a seed. On the heap; NULL: no memory. */
    char *(*vary)(const char *json, uint32_t seed);
    /* The same body with as little thinking as the model allows. On the heap; NULL: it cannot be
     * said, or no memory. The member may be NULL. */
    char *(*relax)(const char *json, const char *model);
    agt_reply_reader read;
};

extern const struct agt_dialect agt_gemini_dialect;
extern const struct agt_dialect agt_openai_dialect;

/* Checks the options and makes the provider. Returns 0, -EINVAL naming the setting, -ENOMEM. */
int agt_provider_new(const struct agt_dialect *dialect, const struct agt_model_options *options,
                     struct agt_model **ret_model, struct cr_err *err);

/* How many of the calls from this one on were made in one turn of the model; at least 1. */
size_t agt_model_turn_size(const struct agt_model_request *request, size_t first);

/* 0 when the texts of a request are there and are UTF-8; else -EINVAL naming the one. */
int agt_model_request_check(const struct agt_model_request *request, struct cr_err *err);
