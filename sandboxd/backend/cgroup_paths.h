/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * Finding control groups in the texts of /proc/self/cgroup and
 * /proc/self/mountinfo. Pure, so that every layout of a host (v1, v2, hybrid,
 * container with a cgroup namespace) is a row in a test.
 */

/*
 * The path of this process in the hierarchy of `controller`; NULL means the
 * unified (v2) hierarchy. Returns 0, -ENOENT, or -ENAMETOOLONG.
 */
int sbx_cgroup_own_path(const char *text, const char *controller, char *ret_path, size_t size);

/*
 * Where the hierarchy of `controller` (NULL: v2) is mounted: the mount point
 * followed by `own_path` relative to the root of that mount. Returns 0,
 * -ENOENT when no mount shows that path, or -ENAMETOOLONG.
 */
int sbx_cgroup_directory(const char *mountinfo, const char *controller, const char *own_path,
                         char *ret_path, size_t size);
