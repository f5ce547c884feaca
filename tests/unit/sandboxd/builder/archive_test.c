/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "sandboxd/builder/archive.h"
#include "sandboxd/builder/room.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>
#include <sys/sysmacros.h>

#define DIGEST "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define DESCRIPTOR "{\"digest\":\"sha256:" DIGEST "\",\"size\":1}"

static void docker_manifests_name_their_layers_in_order(void **state)
{
    struct sbx_layers layers;

    (void)state;
    assert_int_equal(sbx_archive_parse_docker("[{\"Config\":\"c.json\",\"Layers\":[\"a/layer.tar\","
                                              "\"blobs/sha256/b\"]}]",
                                              NULL, &layers, NULL),
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
        assert_int_equal(sbx_archive_parse_docker(bad[i], NULL, &layers, NULL), -EPROTO);
}

static void oci_layouts_name_blobs(void **state)
{
    char path[SBX_LAYER_PATH_MAX];
    struct sbx_layers layers;

    (void)state;
    assert_int_equal(sbx_archive_parse_index("{\"manifests\":[" DESCRIPTOR "]}", NULL, path, NULL),
                     0);
    assert_string_equal(path, "blobs/sha256/" DIGEST);
    assert_int_equal(
        sbx_archive_parse_manifest("{\"layers\":[" DESCRIPTOR "," DESCRIPTOR "]}", &layers), 0);
    assert_int_equal(layers.count, 2);
    assert_string_equal(layers.paths[1], "blobs/sha256/" DIGEST);
    assert_int_equal(
        sbx_archive_parse_index("{\"manifests\":[{\"digest\":\"sha256:../x\"}]}", NULL, path, NULL),
        -EPROTO);
    assert_int_equal(sbx_archive_parse_index("{\"manifests\":[{\"digest\":\"md5:" DIGEST "\"}]}",
                                             NULL, path, NULL),
                     -EPROTO);
    assert_int_equal(sbx_archive_parse_index("{}", NULL, path, NULL), -EPROTO);
    assert_int_equal(sbx_archive_parse_manifest("{\"layers\":[]}", &layers), -EPROTO);
    assert_int_equal(sbx_archive_parse_manifest("[", &layers), -EPROTO);
}

#define TWO_IMAGES                                                                                 \
    "[{\"RepoTags\":[\"one:1\",\"one:latest\"],\"Layers\":[\"a\"]},"                               \
    "{\"RepoTags\":[\"two:1\\n\"],\"Layers\":[\"b\"]},{\"RepoTags\":null,\"Layers\":[\"c\"]}]"

static void one_of_several_images_must_be_named(void **state)
{
    struct cr_err err = CR_ERR_INIT;
    struct sbx_layers layers;

    (void)state;
    assert_int_equal(sbx_archive_parse_docker(TWO_IMAGES, NULL, &layers, &err), -ENOTUNIQ);
    assert_string_equal(err.text, "it holds 3 images: build.image says which of them: one:1, "
                                  "two:1?, one without a name");
    assert_int_equal(sbx_archive_parse_docker(TWO_IMAGES, "three", &layers, &err), -ENOENT);
    assert_non_null(strstr(err.text, "it has no image 'three'"));
    assert_int_equal(sbx_archive_parse_docker(TWO_IMAGES, "one:latest", &layers, NULL), 0);
    assert_string_equal(layers.paths[0], "a");
}

static void oci_images_are_named_by_annotations(void **state)
{
    static const char index[] =
        "{\"manifests\":[{\"digest\":\"sha256:x\",\"annotations\":"
        "{\"org.opencontainers.image.ref.name\":\"1\"}},{\"digest\":\"sha256:" DIGEST
        "\",\"annotations\":{\"org.opencontainers.image.ref.name\":\"2\","
        "\"io.containerd.image.name\":\"docker.io/library/a:2\"}}]}";
    char path[SBX_LAYER_PATH_MAX];
    struct cr_err err = CR_ERR_INIT;

    (void)state;
    assert_int_equal(sbx_archive_parse_index(index, NULL, path, &err), -ENOTUNIQ);
    assert_non_null(strstr(err.text, "1, docker.io/library/a:2"));
    assert_int_equal(sbx_archive_parse_index(index, "2", path, NULL), 0);
    assert_int_equal(sbx_archive_parse_index(index, "docker.io/library/a:2", path, NULL), 0);
    assert_string_equal(path, "blobs/sha256/" DIGEST);
    assert_int_equal(sbx_archive_parse_index(index, "1", path, NULL), -EPROTO);
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
    assert_int_equal(sbx_archive_parse_docker(json, NULL, &layers, NULL), 0);
    (void)snprintf(json + used, sizeof(json) - used, ",\"a\"]}]");
    assert_int_equal(sbx_archive_parse_docker(json, NULL, &layers, NULL), -EPROTO);
}

/* Runs commands there, which must do. */
static void must(const char *folder, const char *commands)
{
    char command[512];

    (void)snprintf(command, sizeof(command), "cd %s && %s", folder, commands);
    // NOLINTNEXTLINE(cert-env33-c,concurrency-mt-unsafe): they are the test's own
    assert_int_equal(system(command), 0);
}

static int unpack(const char *folder)
{
    static const struct sbx_room all_room = {.most_bytes = UINT64_MAX};
    char path[64];
    char work[64];
    char root[64];
    CR_AUTO_CLOSE int output_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    const struct sbx_archive archive = {.path = path,
                                        .work = work,
                                        .output_fd = output_fd,
                                        .deadline_ns = cr_clock_mono_ns() + 60 * CR_NS_PER_S,
                                        .room = &all_room};

    (void)snprintf(path, sizeof(path), "%s/image.tar", folder);
    (void)snprintf(work, sizeof(work), "%s/work", folder);
    (void)snprintf(root, sizeof(root), "%s/root", folder);
    return sbx_archive_unpack(&archive, root, NULL);
}

/* An archive's layer may be a link to another one, as docker writes it, but not to a tar of the
 * host, which would become part of the root. */
static void layers_are_files_of_their_archive(void **state)
{
    char folder[TEST_PATH_SIZE];
    char path[64];

    (void)state;
    test_folder_make(folder, sizeof(folder));
    must(folder, "mkdir work root image image/a image/b host && echo yes > host/kept && "
                 "tar -C host -cf secret.tar kept && cp secret.tar image/a/layer.tar && "
                 "ln -s ../a/layer.tar image/b/layer.tar && "
                 "echo '[{\"Layers\":[\"b/layer.tar\"]}]' > image/manifest.json && "
                 "tar -C image -cf image.tar .");
    assert_int_equal(unpack(folder), 0);
    (void)snprintf(path, sizeof(path), "%s/root/kept", folder);
    assert_int_equal(access(path, F_OK), 0);

    must(folder, "rm -rf work root && mkdir work root && "
                 "ln -sf \"$PWD/secret.tar\" image/b/layer.tar && tar -C image -cf image.tar .");
    assert_int_equal(unpack(folder), -EXDEV);
    assert_int_equal(access(path, F_OK), -1);
    must(folder, "rm -rf \"$PWD\"");
}

/* Not even root may everywhere, as in a user namespace. */
static bool can_make_devices(const char *folder)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "%s/device", folder);
    return mknod(path, S_IFCHR | 0600, makedev(1, 5)) == 0 && unlink(path) == 0;
}

/* To open a device can do something, and a pipe waits for somebody: neither is an image's. */
static void what_is_read_of_an_archive_is_a_regular_file(void **state)
{
    static const char *const others[] = {"mknod image/manifest.json c 1 5", /* zeros without end */
                                         "mkfifo image/manifest.json", "mkdir image/manifest.json",
                                         "ln -s manifest.json image/manifest.json"};
    char folder[TEST_PATH_SIZE];

    (void)state;
    test_folder_make(folder, sizeof(folder));
    if (!can_make_devices(folder))
        skip();
    for (size_t i = 0; i < CR_ARRAY_SIZE(others); i++) {
        char command[128];

        (void)snprintf(command, sizeof(command),
                       "rm -rf work root image && mkdir work root image && %s && "
                       "tar -C image -cf image.tar .",
                       others[i]);
        must(folder, command);
        assert_int_equal(unpack(folder), i < 3 ? -EINVAL : -ELOOP);
    }
    must(folder, "rm -rf work root image && mkdir work root image image/a && "
                 "mknod image/a/layer.tar c 1 5 && "
                 "echo '[{\"Layers\":[\"a/layer.tar\"]}]' > image/manifest.json && "
                 "tar -C image -cf image.tar .");
    assert_int_equal(unpack(folder), -EINVAL);
    must(folder, "rm -rf \"$PWD\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(docker_manifests_name_their_layers_in_order),
        cmocka_unit_test(docker_manifests_stay_in_their_archive),
        cmocka_unit_test(oci_layouts_name_blobs),
        cmocka_unit_test(one_of_several_images_must_be_named),
        cmocka_unit_test(oci_images_are_named_by_annotations),
        cmocka_unit_test(layers_are_bounded),
        cmocka_unit_test(layers_are_files_of_their_archive),
        cmocka_unit_test(what_is_read_of_an_archive_is_a_regular_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
