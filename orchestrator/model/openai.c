/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/model/dialect.h"
#include "orchestrator/model/openai_request.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct agt_provider_names names = {
    .key = "OPENAI_API_KEY",
    .base_url = "OPENAI_BASE_URL",
    .model = "OPENAI_MODEL",
    .list_models = "GET /v1/models there lists them (Ollama: `ollama list`)",
};

/* The base is "…/v1" with all of them; a bare host is taken for one that lacks it. */
static int make_url(const char *base_url, const char *model, enum agt_target target, char **ret_url)
{
    const char *host = strstr(base_url, "://");
    const char *path = host ? strchr(host + 3, '/') : NULL;
    size_t size = strlen(base_url);

    (void)model;
    while (size > 0 && base_url[size - 1] == '/')
        size--;
    if (asprintf(ret_url, "%.*s%s%s", (int)size, base_url, path && path[1] ? "" : "/v1",
                 target == AGT_TARGET_ASK ? "/chat/completions" : "/models") < 0)
        return -ENOMEM;
    return 0;
}

const struct agt_dialect agt_openai_dialect = {
    .names = &names,
    .default_url = "http://127.0.0.1:11434/v1",
    .key_header = "Authorization: Bearer ",
    .is_model_valid = agt_openai_model_is_valid,
    .url = make_url,
    .request_json = agt_openai_request_json,
    .vary = agt_openai_request_vary,
    .read = agt_openai_read,
};

int agt_openai_new(const struct agt_model_options *options, struct agt_model **ret_model,
                   struct cr_err *err)
{
    return agt_provider_new(&agt_openai_dialect, options, ret_model, err);
}
