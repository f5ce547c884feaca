/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/backend/cgroup.h"
#include "tests/harness/test.h"

/* A folder of the test with ordinary files in it, which plays all hierarchies of control groups. */
struct cgroup_folder {
    char path[32];
    int fd;
    struct sbx_cgroup_host host;
    struct sbx_cgroup group;
};

/* Empty. Closing it removes the files of these names (up to NULL), and must leave nothing. */
void cgroup_folder_open(struct cgroup_folder *folder, const struct sbx_cgroup_ops *ops);
void cgroup_folder_close(struct cgroup_folder *folder, const char *const *names);

/* Writes a file, and compares what one says. */
void cgroup_folder_put(const struct cgroup_folder *folder, const char *name, const char *text);
void cgroup_folder_expect(const struct cgroup_folder *folder, const char *name, const char *text);
