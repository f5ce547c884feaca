/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/integration/sandboxd/native_leftovers.h"

#include "common/clock.h"
#include "common/err.h"
#include "sandboxd/backend/cgroup.h"
#include "tests/harness/test.h"
#include "tests/integration/sandboxd/native_host.h"

#include <poll.h>
#include <stdint.h>
#include <stdio.h>

#define GONE_MS 10000

static int count_lines(const char *path)
{
    FILE *file = fopen(path, "re");
    int count = 0;

    assert_non_null(file);
    for (int c = getc(file); c != EOF; c = getc(file))
        count += c == '\n';
    (void)fclose(file);
    return count;
}

int native_count_mounts(pid_t pid)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%d/mountinfo", pid);
    return count_lines(path);
}

int native_count_groups(pid_t pid)
{
    struct sbx_cgroup_host host;
    struct cr_err err = CR_ERR_INIT;
    char name[64];
    int count = 0;

    assert_int_equal(sbx_cgroup_host_find(&host, &err), 0);
    (void)snprintf(name, sizeof(name), "crisol-native-%d", pid);
    for (uint32_t i = 0; i < host.hierarchy_count; i++) {
        char path[128];

        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", host.own_fds[i]);
        count += native_count_entries(path, name);
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", host.own_fds[i], name);
        count += native_count_entries(path, "box-");
    }
    sbx_cgroup_host_close(&host);
    return count;
}

bool native_settles(int (*count)(pid_t), pid_t pid, int wanted)
{
    int64_t deadline_ns = cr_clock_mono_ns() + GONE_MS * CR_NS_PER_MS * test_slowness();

    while (count(pid) > wanted) {
        if (cr_clock_mono_ns() > deadline_ns) {
            print_error("%d instead of %d\n", count(pid), wanted);
            return false;
        }
        (void)poll(NULL, 0, 5);
    }
    return true;
}

void native_expect_no_processes(const struct native_client *client)
{
    int64_t deadline_ns = cr_clock_mono_ns() + GONE_MS * CR_NS_PER_MS * test_slowness();

    while (native_client_count_processes(client) > 0) {
        assert_true(cr_clock_mono_ns() < deadline_ns);
        (void)poll(NULL, 0, 5);
    }
}
