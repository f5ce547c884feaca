/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/provider.h"

#include "orchestrator/config.h"
#include "orchestrator/model/model.h"

#include <string.h>

static int open_openai(const struct agt_config *config, struct agt_model_options *options,
                       struct agt_model **ret_model, struct cr_err *err)
{
    options->api_key = config->file_key ? config->file_key : config->openai_key;
    options->base_url = config->openai_base_url;
    options->model = config->openai_model;
    return agt_openai_new(options, ret_model, err);
}

int agt_provider_open(const struct agt_config *config, uint32_t max_attempts,
                      struct agt_model **ret_model, struct cr_err *err)
{
    struct agt_model_options options = {
        .api_key = config->file_key ? config->file_key : config->api_key,
        .key_file = config->file_key ? config->key_file : NULL,
        .base_url = config->base_url,
        .model = config->model,
        .ca_file = config->ca_file,
        .max_requests = (uint32_t)config->model_requests,
        .max_attempts = max_attempts,
    };

    if (strcmp(config->provider, "openai") == 0)
        return open_openai(config, &options, ret_model, err);
    if (strcmp(config->provider, "vertex") == 0) {
        options.vertex_project = config->vertex_project;
        options.vertex_location = config->vertex_location;
        /* With a project it is a token of OAuth, without one (express mode) an API key. */
        options.is_bearer = config->vertex_project && config->vertex_project[0];
    }
    return agt_gemini_new(&options, ret_model, err);
}
