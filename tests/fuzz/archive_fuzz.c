/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "sandboxd/builder/archive.h"
#include "sandboxd/wire/payload.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

static void check_layers(const struct sbx_layers *layers)
{
    FUZZ_CHECK(layers->count > 0 && layers->count <= SBX_LAYERS_MAX);
    for (size_t i = 0; i < layers->count; i++)
        FUZZ_CHECK(sbx_path_is_safe(layers->paths[i], strlen(layers->paths[i])));
}

/* What refuses an archive is shown to a person. */
static void check_error(const struct cr_err *err)
{
    FUZZ_CHECK(err->text[0] != '\0');
    for (const char *at = err->text; *at; at++)
        FUZZ_CHECK(*at >= ' ' && *at <= '~');
}

static void check(const char *json, const char *name)
{
    struct cr_err err = CR_ERR_INIT;
    char path[SBX_LAYER_PATH_MAX];
    struct sbx_layers layers;

    if (sbx_archive_parse_docker(json, name, &layers, &err) == 0)
        check_layers(&layers);
    else
        check_error(&err);
    err = (struct cr_err)CR_ERR_INIT;
    if (sbx_archive_parse_index(json, name, path, &err) == 0)
        FUZZ_CHECK(sbx_path_is_safe(path, strlen(path)));
    else
        check_error(&err);
    if (sbx_archive_parse_manifest(json, &layers) == 0)
        check_layers(&layers);
}

/* The three files of JSON of an image's archive; its layers are left to tar. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *json = malloc(size + 1);

    FUZZ_CHECK(json);
    if (size > 0)
        memcpy(json, data, size);
    json[size] = '\0';
    check(json, NULL);
    check(json, "one:1");
    free(json);
    return 0;
}
