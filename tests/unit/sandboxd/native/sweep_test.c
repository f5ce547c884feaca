/* SPDX-License-Identifier: Apache-2.0 */

/* What predecessors left, on ordinary folders: those that are not ours to remove are told apart. */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "sandboxd/backend/cgroup.h"
#include "sandboxd/native/sweep.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define NOBODY 65534
#define SOON_NS (3 * CR_NS_PER_S) /* less than anybody waits for a folder to become empty */

/* Two hierarchies of version 1: that of memory, and another. */
struct place {
    char paths[2][32];
    struct sbx_cgroup_host host;
};

static void open_place(struct place *place, enum sbx_controller second)
{
    sbx_cgroup_host_init(&place->host, &sbx_cgroup_v1);
    (void)snprintf(place->host.base_name, sizeof(place->host.base_name), "crisol-native-7");
    for (int i = 0; i < 2; i++) {
        (void)snprintf(place->paths[i], sizeof(place->paths[i]), "/tmp/sweep-test-XXXXXX");
        assert_non_null(mkdtemp(place->paths[i]));
        assert_int_equal(chmod(place->paths[i], 0755), 0);
        place->host.own_fds[i] = open(place->paths[i], O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    }
    place->host.hierarchy_count = 2;
    place->host.hierarchy[SBX_CONTROLLER_MEMORY] = 0;
    place->host.hierarchy[second] = 1;
}

/* What a predecessor left in a hierarchy: a box in its folder. */
static void leave(const struct place *place, int hierarchy, const char *name)
{
    char box[64];

    (void)snprintf(box, sizeof(box), "%s/box-1", name);
    assert_int_equal(mkdirat(place->host.own_fds[hierarchy], name, 0755), 0);
    assert_int_equal(mkdirat(place->host.own_fds[hierarchy], box, 0755), 0);
}

static bool is_there(const struct place *place, int hierarchy, const char *name)
{
    return faccessat(place->host.own_fds[hierarchy], name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void close_place(struct place *place)
{
    for (int i = 0; i < 2; i++) {
        (void)unlinkat(place->host.own_fds[i], "crisol-native-3/box-1", AT_REMOVEDIR);
        (void)unlinkat(place->host.own_fds[i], "crisol-native-3", AT_REMOVEDIR);
        assert_int_equal(rmdir(place->paths[i]), 0);
    }
    sbx_cgroup_host_close(&place->host);
}

/* A number may come again, in a process namespace of its own soon: what bears our own name is
 * somebody else's, too, as long as nobody holds it. */
static void what_nobody_holds_is_removed(void **state)
{
    struct cr_err err = CR_ERR_INIT;
    CR_AUTO_CLOSE int held = -1;
    struct place place;
    uint32_t count = 0;

    (void)state;
    open_place(&place, SBX_CONTROLLER_FREEZER);
    for (int i = 0; i < 2; i++) {
        leave(&place, i, "crisol-native-3");
        leave(&place, i, "crisol-native-7");
    }
    held = openat(place.host.own_fds[0], "crisol-native-3", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    assert_int_equal(flock(held, LOCK_EX | LOCK_NB), 0);

    assert_int_equal(sbx_sweep_predecessors(&place.host, &count, &err), 0);
    assert_int_equal(count, 3);
    assert_true(is_there(&place, 0, "crisol-native-3/box-1"));
    assert_false(is_there(&place, 1, "crisol-native-3"));
    assert_false(is_there(&place, 0, "crisol-native-7") || is_there(&place, 1, "crisol-native-7"));
    close_place(&place);
}

/* As a user who owns nothing there. Returns what the sweep did, in its place the exit code. */
static int sweep_as_nobody(const struct place *place)
{
    int64_t start_ns = cr_clock_mono_ns();
    struct cr_err err = CR_ERR_INIT;
    uint32_t count = 0;
    int r;

    if (geteuid() == 0 && setresuid(NOBODY, NOBODY, NOBODY) < 0)
        return 100;
    r = sbx_sweep_predecessors(&place->host, &count, &err);
    if (cr_clock_mono_ns() - start_ns > SOON_NS)
        return 101;
    if (r < 0 && !(strstr(err.text, "crisol-native-3'") && strstr(err.text, "-delete")))
        return 102;
    return -r;
}

static int in_child(const struct place *place)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0)
        _exit(sweep_as_nobody(place));
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* It limits nothing: the start goes on without. */
static void a_freezer_that_is_not_ours_keeps_what_it_has(void **state)
{
    struct place place;

    (void)state;
    open_place(&place, SBX_CONTROLLER_FREEZER);
    leave(&place, 1, "crisol-native-3");
    if (geteuid() != 0)
        assert_int_equal(chmod(place.paths[1], 0555), 0);
    assert_int_equal(in_child(&place), 0);
    assert_true(is_there(&place, 1, "crisol-native-3/box-1"));
    assert_int_equal(chmod(place.paths[1], 0755), 0);
    close_place(&place);
}

/* What is left there has memory or processes of ours: said at once, with what to do. */
static void any_other_hierarchy_that_is_not_ours_says_what_to_do(void **state)
{
    struct place place;

    (void)state;
    open_place(&place, SBX_CONTROLLER_PIDS);
    place.host.hierarchy[SBX_CONTROLLER_FREEZER] = 1; /* joined to it */
    leave(&place, 1, "crisol-native-3");
    if (geteuid() != 0)
        assert_int_equal(chmod(place.paths[1], 0555), 0);
    assert_int_equal(in_child(&place), EACCES);
    assert_true(is_there(&place, 1, "crisol-native-3/box-1"));
    assert_int_equal(chmod(place.paths[1], 0755), 0);
    close_place(&place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_nobody_holds_is_removed),
        cmocka_unit_test(a_freezer_that_is_not_ours_keeps_what_it_has),
        cmocka_unit_test(any_other_hierarchy_that_is_not_ours_says_what_to_do),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
