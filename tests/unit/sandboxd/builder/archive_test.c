/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/builder/archive.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DIGEST "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define DESCRIPTOR "{\"digest\":\"sha256:" DIGEST "\",\"size\":1}"

static void docker_manifests_name_their_layers_in_order(void **state)
{
    struct sbx_layers layers;

    (void)state;
    assert_int_equal(sbx_archive_parse_docker("[{\"Config\":\"c.json\",\"Layers\":[\"a/layer.tar\","
                                              "\"blobs/sha256/b\"]}]",
                                              &layers),
                     0);
    assert_int_equal(layers.count, 2);
    assert_string_equal(layers.paths[0], "a/layer.tar");
    assert_string_equal(layers.paths[1], "blobs/sha256/b");
}

static void docker_manifests_stay_in_their_archive(void **state)
{
    static const char *const bad[] = {
        "",
        "{}",
        "[]",
        "[{}]",
        "[{\"Layers\":[]}]",
        "[{\"Layers\":[1]}]",
        "[{\"Layers\":[\"../x\"]}]",
        "[{\"Layers\":[\"/etc/passwd\"]}]",
        "[{\"Layers\":[\"a/../../b\"]}]",
        "[{\"Layers\":[\"a\",\"\"]}]",
        "[{\"Layers\":\"a\"}]",
    };
    struct sbx_layers layers;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(sbx_archive_parse_docker(bad[i], &layers), -EPROTO);
}

static void oci_layouts_name_blobs(void **state)
{
    char path[SBX_LAYER_PATH_MAX];
    struct sbx_layers layers;

    (void)state;
    assert_int_equal(sbx_archive_parse_index("{\"manifests\":[" DESCRIPTOR "]}", path), 0);
    assert_string_equal(path, "blobs/sha256/" DIGEST);
    assert_int_equal(
        sbx_archive_parse_manifest("{\"layers\":[" DESCRIPTOR "," DESCRIPTOR "]}", &layers), 0);
    assert_int_equal(layers.count, 2);
    assert_string_equal(layers.paths[1], "blobs/sha256/" DIGEST);
    assert_int_equal(
        sbx_archive_parse_index("{\"manifests\":[{\"digest\":\"sha256:../x\"}]}", path), -EPROTO);
    assert_int_equal(
        sbx_archive_parse_index("{\"manifests\":[{\"digest\":\"md5:" DIGEST "\"}]}", path),
        -EPROTO);
    assert_int_equal(sbx_archive_parse_index("{}", path), -EPROTO);
    assert_int_equal(sbx_archive_parse_manifest("{\"layers\":[]}", &layers), -EPROTO);
    assert_int_equal(sbx_archive_parse_manifest("[", &layers), -EPROTO);
}

static void layers_are_bounded(void **state)
{
    static char json[SBX_LAYERS_MAX * 8 + 64] = "[{\"Layers\":[\"a\"";
    struct sbx_layers layers;
    size_t used = strlen(json);

    (void)state;
    for (size_t i = 1; i < SBX_LAYERS_MAX; i++)
        used += (size_t)snprintf(json + used, sizeof(json) - used, ",\"a\"");
    (void)snprintf(json + used, sizeof(json) - used, "]}]");
    assert_int_equal(sbx_archive_parse_docker(json, &layers), 0);
    (void)snprintf(json + used, sizeof(json) - used, ",\"a\"]}]");
    assert_int_equal(sbx_archive_parse_docker(json, &layers), -EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(docker_manifests_name_their_layers_in_order),
        cmocka_unit_test(docker_manifests_stay_in_their_archive),
        cmocka_unit_test(oci_layouts_name_blobs),
        cmocka_unit_test(layers_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
