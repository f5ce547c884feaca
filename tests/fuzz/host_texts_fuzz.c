/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/backend/cgroup.h"
#include "sandboxd/backend/cgroup_paths.h"
#include "sandboxd/backend/cgroup_watched.h"
#include "sandboxd/init/kept.h"
#include "sandboxd/native/host.h"
#include "sandboxd/supervisor/subids.h"
#include "tests/fuzz/fuzz.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* A process gives itself its name, which stands in the middle of this line (proc_pid_stat(5)). */
static void read_process(const char *text)
{
    uint64_t start = 0;
    uint64_t user = 0;
    uint64_t system = 0;

    if (sbx_kept_parse_start(text, &start) == 0)
        FUZZ_CHECK(strrchr(text, ')'));
    if (sbx_watch_parse_stat(text, &user, &system) == 0)
        FUZZ_CHECK(strrchr(text, ')'));
    (void)sbx_watch_parse_rollup(text);
}

/* Mounts and control groups bear names that others have given them. */
static void read_groups(const char *text)
{
    static const char *const controllers[] = {NULL, "memory", "cpu"};
    char path[PATH_MAX];
    char folder[PATH_MAX];
    uint64_t value = 0;

    for (size_t i = 0; i < sizeof(controllers) / sizeof(controllers[0]); i++) {
        if (sbx_cgroup_own_path(text, controllers[i], path, sizeof(path)) < 0)
            (void)snprintf(path, sizeof(path), "/own");
        FUZZ_CHECK(strlen(path) < sizeof(path));
        if (sbx_cgroup_directory(text, controllers[i], path, folder, sizeof(folder)) == 0)
            FUZZ_CHECK(strlen(folder) < sizeof(folder));
    }
    (void)sbx_cgroup_find_key(text, "frozen", &value);
}

static void read_ids(const char *text)
{
    struct sbx_subids range = {0};

    (void)sbx_host_parse_ids(text);
    if (sbx_subids_find(text, "ordinary", 1000, &range))
        FUZZ_CHECK(range.count > 0 && range.first <= UINT32_MAX - (range.count - 1));
}

/* Texts of the host: most are the kernel's, with names in them that are anybody's. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);

    read_process(text);
    read_groups(text);
    read_ids(text);
    free(text);
    return 0;
}
