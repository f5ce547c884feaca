/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "orchestrator/model/dialect.h"
#include "orchestrator/model/gemini_request.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct agt_provider_names names = {
    .key = "GEMINI_API_KEY",
    .base_url = "GEMINI_BASE_URL",
    .model = "GEMINI_MODEL",
    .list_models = "GET /v1beta/models there lists them: curl -H \"x-goog-api-key: "
                   "$GEMINI_API_KEY\" https://generativelanguage.googleapis.com/v1beta/models",
};

static int make_url(const char *base_url, const char *model, enum agt_target target, char **ret_url)
{
    char *slash;
    int r;

    if (target == AGT_TARGET_ASK)
        return agt_gemini_url(base_url, model, ":streamGenerateContent?alt=sse", ret_url);
    if (target == AGT_TARGET_ENTRY)
        return agt_gemini_url(base_url, model, "", ret_url);
    r = agt_gemini_url(base_url, "models/all", "", ret_url);
    slash = r == 0 ? strrchr(*ret_url, '/') : NULL;
    if (slash)
        *slash = 0; /* ".../models" */
    return r;
}

const struct agt_dialect agt_gemini_dialect = {
    .names = &names,
    .default_url = "https://generativelanguage.googleapis.com",
    .default_model = "gemini-2.5-flash",
    .needs_key = true,
    .has_entries = true,
    .key_header = "x-goog-api-key: ",
    .is_model_valid = agt_gemini_model_is_valid,
    .url = make_url,
    .request_json = agt_gemini_request_json,
    .vary = agt_gemini_request_vary,
    .relax = agt_gemini_request_relax,
    .read = agt_gemini_read,
};

/* Both become a part of a host's name or of a path. */
static int check_word(const char *word, const char *setting, struct cr_err *err)
{
    for (const char *at = word; *at; at++) {
        if (!isalnum((unsigned char)*at) && !strchr("-.:", *at))
            return cr_err_set(err, EINVAL, "%s '%.64s' has characters that none has", setting,
                              word);
    }
    return strlen(word) > 63 || strstr(word, "..")
               ? cr_err_set(err, EINVAL, "%s '%.64s' is not one", setting, word)
               : 0;
}

static int make_vertex_host(const char *location, char **ret_host)
{
    int r;

    if (strcmp(location, "global") == 0)
        r = asprintf(ret_host, "https://aiplatform.googleapis.com");
    else if (strcmp(location, "us") == 0 || strcmp(location, "eu") == 0)
        r = asprintf(ret_host, "https://aiplatform.%s.rep.googleapis.com", location);
    else
        r = asprintf(ret_host, "https://%s-aiplatform.googleapis.com", location);
    return r < 0 ? -ENOMEM : 0;
}

/* Vertex AI: the same interface below another path, which names project and region. */
static int make_vertex_url(const struct agt_model_options *options, char **ret_url,
                           struct cr_err *err)
{
    static const char tail[] = "publishers/google";
    const char *project = options->vertex_project ? options->vertex_project : "";
    CR_AUTO_FREE char *host = NULL;
    int r = check_word(project, "GOOGLE_CLOUD_PROJECT", err);

    if (r == 0)
        r = check_word(options->vertex_location, "GOOGLE_CLOUD_LOCATION", err);
    if (r < 0)
        return r;
    if (options->base_url && *options->base_url)
        host = strdup(options->base_url);
    else if (make_vertex_host(options->vertex_location, &host) < 0)
        host = NULL;
    if (host && *project)
        r = asprintf(ret_url, "%s/v1beta1/projects/%s/locations/%s/%s", host, project,
                     options->vertex_location, tail);
    else if (host)
        r = asprintf(ret_url, "%s/v1beta1/%s", host, tail);
    return !host || r < 0 ? cr_err_set(err, ENOMEM, "out of memory for the model's address") : 0;
}

int agt_gemini_new(const struct agt_model_options *options, struct agt_model **ret_model,
                   struct cr_err *err)
{
    struct agt_model_options all = *options;
    CR_AUTO_FREE char *base_url = NULL;
    int r;

    if (options->vertex_location) {
        r = make_vertex_url(options, &base_url, err);
        if (r < 0)
            return r;
        all.base_url = base_url;
    }
    return agt_provider_new(&agt_gemini_dialect, &all, ret_model, err);
}
