/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/builder/archive.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "common/read_all.h"
#include "sandboxd/builder/tool.h"
#include "sandboxd/builder/tree.h"
#include "sandboxd/wire/payload.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define JSON_MAX (4U << 20)
#define NAMES_MAX 256U /* of images, in an error */
#define TAR "/usr/bin/tar"
/* xz takes what the archive says, up to 4 GiB: the largest of its own presets needs 65 MiB. */
#define TAR_MEMORY (UINT64_C(1) << 30)

/* ---- what is in an archive ---- */

static void json_free(cJSON **json)
{
    cJSON_Delete(*json);
}

#define AUTO_JSON __attribute__((cleanup(json_free)))

/* An archive's own names: nothing that a path below a workspace could not be, either. */
static int take_path(const cJSON *layer, char ret_path[SBX_LAYER_PATH_MAX])
{
    const char *text = cJSON_GetStringValue(layer);

    if (!text || strlen(text) >= SBX_LAYER_PATH_MAX || !sbx_path_is_safe(text, strlen(text)))
        return -EPROTO;
    memcpy(ret_path, text, strlen(text) + 1);
    return 0;
}

/* The list of layers, each by `take`; none at all is as wrong as too many. */
static int take_layers(const cJSON *layers,
                       int (*take)(const cJSON *layer, char ret_path[SBX_LAYER_PATH_MAX]),
                       struct sbx_layers *ret_layers)
{
    const cJSON *layer;
    int r = cJSON_IsArray(layers) ? 0 : -EPROTO;

    ret_layers->count = 0;
    cJSON_ArrayForEach(layer, layers)
    {
        if (r == 0 && ret_layers->count == SBX_LAYERS_MAX)
            r = -EPROTO;
        if (r == 0)
            r = take(layer, ret_layers->paths[ret_layers->count]);
        if (r == 0)
            ret_layers->count++;
    }
    return r == 0 && ret_layers->count == 0 ? -EPROTO : r;
}

/* Names of an image in its archive: the one of this index, or NULL behind the last. */
typedef const char *name_of(const cJSON *image, int index);

static const char *docker_name(const cJSON *image, int index)
{
    return cJSON_GetStringValue(
        cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(image, "RepoTags"), index));
}

/* OCI's own is often the tag alone; containerd, and so docker, adds the whole name. */
static const char *oci_name(const cJSON *image, int index)
{
    static const char *const keys[] = {"io.containerd.image.name",
                                       "org.opencontainers.image.ref.name"};
    const cJSON *annotations = cJSON_GetObjectItemCaseSensitive(image, "annotations");
    const char *name = NULL;

    for (size_t i = 0; i < CR_ARRAY_SIZE(keys) && index >= 0; i++) {
        name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(annotations, keys[i]));
        index -= name != NULL;
    }
    return index < 0 ? name : NULL;
}

static bool has_name(const cJSON *image, name_of *get, const char *wanted)
{
    const char *name;

    for (int i = 0; (name = get(image, i)); i++) {
        if (strcmp(name, wanted) == 0)
            return true;
    }
    return false;
}

/* The first name of each, for a person; what no name of an image has becomes '?'. */
static void tell_names(const cJSON *images, name_of *get, char *text, size_t size)
{
    size_t used = 0;
    const cJSON *image = NULL;

    text[0] = '\0';
    cJSON_ArrayForEach(image, images)
    {
        const char *name = get(image, 0);

        if (used < size)
            used += (size_t)snprintf(text + used, size - used, "%s%.80s", used > 0 ? ", " : "",
                                     name ? name : "one without a name");
    }
    for (char *at = text; *at; at++) {
        if (*at < ' ' || *at > '~')
            *at = '?';
    }
}

/* The one that is meant: of this name, or, without a name, the only one there is. */
static int pick_image(const cJSON *images, name_of *get, const char *name, const cJSON **ret_image,
                      struct cr_err *err)
{
    const int count = cJSON_IsArray(images) ? cJSON_GetArraySize(images) : 0;
    const cJSON *image = count > 0 ? images->child : NULL;
    char names[NAMES_MAX];

    if (!image)
        return cr_err_set(err, EPROTO, "it names no image");
    while (name && image && !has_name(image, get, name))
        image = image->next;
    tell_names(images, get, names, sizeof(names));
    if (!image)
        return cr_err_set(err, ENOENT, "it has no image '%s', but: %s", name, names);
    if (!name && count > 1)
        return cr_err_set(err, ENOTUNIQ, "it holds %d images: build.image says which of them: %s",
                          count, names);
    *ret_image = image;
    return 0;
}

int sbx_archive_parse_docker(const char *json, const char *name, struct sbx_layers *ret_layers,
                             struct cr_err *err)
{
    AUTO_JSON cJSON *manifest = cJSON_Parse(json);
    const cJSON *image = NULL;
    int r = pick_image(manifest, docker_name, name, &image, err);

    if (r == 0 &&
        take_layers(cJSON_GetObjectItemCaseSensitive(image, "Layers"), take_path, ret_layers) < 0)
        return cr_err_set(err, EPROTO, "its list of layers is none");
    return r;
}

/* "sha256:…" is the file blobs/sha256/… */
static int take_digest(const cJSON *descriptor, char ret_path[SBX_LAYER_PATH_MAX])
{
    const char *digest =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(descriptor, "digest"));
    static const char prefix[] = "sha256:";
    int n;

    if (!digest || strncmp(digest, prefix, strlen(prefix)) != 0 ||
        !sbx_root_digest_is_valid(digest + strlen(prefix)))
        return -EPROTO;
    n = snprintf(ret_path, SBX_LAYER_PATH_MAX, "blobs/sha256/%s", digest + strlen(prefix));
    return n > 0 && n < (int)SBX_LAYER_PATH_MAX ? 0 : -EPROTO;
}

int sbx_archive_parse_index(const char *json, const char *name, char ret_path[SBX_LAYER_PATH_MAX],
                            struct cr_err *err)
{
    AUTO_JSON cJSON *index = cJSON_Parse(json);
    const cJSON *image = NULL;
    int r = pick_image(cJSON_GetObjectItemCaseSensitive(index, "manifests"), oci_name, name, &image,
                       err);

    if (r == 0 && take_digest(image, ret_path) < 0)
        return cr_err_set(err, EPROTO, "the digest of its image is none");
    return r;
}

int sbx_archive_parse_manifest(const char *json, struct sbx_layers *ret_layers)
{
    AUTO_JSON cJSON *manifest = cJSON_Parse(json);
    const cJSON *layers = cJSON_GetObjectItemCaseSensitive(manifest, "layers");

    return take_layers(layers, take_digest, ret_layers);
}

/* ---- unpacking ---- */

struct unpacking {
    const char *image; /* NULL: the only one */
    const char *work;
    int output_fd;
    int64_t deadline_ns;
    const struct sbx_room *room;
    struct cr_err *err;
};

static int extract(const struct unpacking *unpacking, const char *archive, const char *folder)
{
    const char *const argv[] = {
        TAR, "--extract", "--file", archive, "--numeric-owner", "--no-same-owner", NULL};
    const struct sbx_tool tool = {.argv = argv,
                                  .folder = folder,
                                  .output_fd = unpacking->output_fd,
                                  .deadline_ns = unpacking->deadline_ns,
                                  .room = unpacking->room,
                                  .memory_bytes = TAR_MEMORY};

    if (mkdirat(AT_FDCWD, folder, 0755) < 0 && errno != EEXIST)
        return cr_err_sys(unpacking->err, errno, "make a folder for the archive");
    return sbx_tool_run(&tool, unpacking->err);
}

/*
 * What an archive holds may be a link, as docker save writes for a layer that
 * is there twice, but to nothing outside of it. A device node is not opened:
 * with some that alone does something. Returns a file descriptor or -errno.
 */
static int open_inside(const char *folder, const char *path)
{
    const struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                                 .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    CR_AUTO_CLOSE int folder_fd = openat(AT_FDCWD, folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    CR_AUTO_CLOSE int place_fd =
        folder_fd < 0 ? -1 : (int)syscall(SYS_openat2, folder_fd, path, &how, sizeof(how));
    char link[32];
    struct stat info;
    int fd;

    if (place_fd < 0 || fstat(place_fd, &info) < 0)
        return -errno;
    if (!S_ISREG(info.st_mode))
        return -EINVAL;
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", place_fd);
    fd = openat(AT_FDCWD, link, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* Returns 0, -ENOENT when it is not there, or another -errno. */
static int read_json(const char *folder, const char *name, struct cr_buf *buf)
{
    CR_AUTO_CLOSE int fd = open_inside(folder, name);

    cr_buf_init(buf, JSON_MAX);
    return fd < 0 ? fd : cr_read_all(fd, buf);
}

static int parse_oci(const struct unpacking *unpacking, const char *folder, const char *index,
                     struct sbx_layers *layers)
{
    CR_AUTO_BUF struct cr_buf manifest;
    char path[SBX_LAYER_PATH_MAX];
    int r = sbx_archive_parse_index(index, unpacking->image, path, unpacking->err);

    cr_buf_init(&manifest, JSON_MAX);
    if (r < 0)
        return cr_err_wrap(unpacking->err, "index.json");
    r = read_json(folder, path, &manifest);
    if (r == 0)
        r = sbx_archive_parse_manifest(cr_buf_str(&manifest), layers);
    return r < 0 ? cr_err_set(unpacking->err, EPROTO,
                              "its index.json is not that of an image of one platform")
                 : 0;
}

/* Returns 0, or 1 when the archive holds no image but a tree. */
static int find_layers(const struct unpacking *unpacking, const char *folder,
                       struct sbx_layers *layers)
{
    CR_AUTO_BUF struct cr_buf json;
    int r = read_json(folder, "manifest.json", &json);

    if (r == 0) {
        r = sbx_archive_parse_docker(cr_buf_str(&json), unpacking->image, layers, unpacking->err);
        return r < 0 ? cr_err_wrap(unpacking->err, "manifest.json") : 0;
    }
    cr_buf_done(&json);
    if (r != -ENOENT)
        return cr_err_sys(unpacking->err, -r, "read its manifest.json");
    r = read_json(folder, "index.json", &json);
    if (r == -ENOENT)
        return unpacking->image
                   ? cr_err_set(unpacking->err, ENOENT,
                                "build.image: the archive is a tree and holds no image")
                   : 1;
    if (r < 0)
        return cr_err_sys(unpacking->err, -r, "read its index.json");
    return parse_oci(unpacking, folder, cr_buf_str(&json), layers);
}

/* Nobody else changes `outer` after the look at the path. */
static int extract_layer(const struct unpacking *unpacking, const char *outer, const char *path,
                         const char *layer)
{
    char archive[PATH_MAX + SBX_LAYER_PATH_MAX + 1];
    CR_AUTO_CLOSE int fd = open_inside(outer, path);

    if (fd < 0)
        return cr_err_sys(unpacking->err, -fd, "open the layer '%s' of the archive", path);
    (void)snprintf(archive, sizeof(archive), "%s/%s", outer, path);
    return extract(unpacking, archive, layer);
}

static int lay_over(const struct unpacking *unpacking, const char *layer, const char *root)
{
    CR_AUTO_CLOSE int root_fd = openat(AT_FDCWD, root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CR_AUTO_CLOSE int layer_fd = openat(AT_FDCWD, layer, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CR_AUTO_CLOSE int work_fd =
        openat(AT_FDCWD, unpacking->work, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = root_fd < 0 || layer_fd < 0 || work_fd < 0 ? -errno : 0;

    if (r == 0)
        r = sbx_tree_lay_over(root_fd, layer_fd);
    if (r == 0)
        r = sbx_tree_remove(work_fd, "layer");
    return r < 0 ? cr_err_sys(unpacking->err, -r, "lay a layer of the image over the others") : 0;
}

int sbx_archive_unpack(const struct sbx_archive *source, const char *root, struct cr_err *err)
{
    const char *const work = source->work;
    const struct unpacking unpacking = {.image = source->image,
                                        .work = work,
                                        .output_fd = source->output_fd,
                                        .deadline_ns = source->deadline_ns,
                                        .room = source->room,
                                        .err = err};
    struct sbx_layers layers = {.count = 0};
    char outer[PATH_MAX];
    char layer[PATH_MAX];
    int r;

    (void)snprintf(outer, sizeof(outer), "%s/outer", work);
    (void)snprintf(layer, sizeof(layer), "%s/layer", work);
    r = extract(&unpacking, source->path, outer);
    if (r == 0)
        r = find_layers(&unpacking, outer, &layers);
    if (r == 1)
        return lay_over(&unpacking, outer, root);
    for (size_t i = 0; r == 0 && i < layers.count; i++) {
        r = extract_layer(&unpacking, outer, layers.paths[i], layer);
        if (r == 0)
            r = lay_over(&unpacking, layer, root);
    }
    return r;
}
