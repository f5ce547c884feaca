/* SPDX-License-Identifier: Apache-2.0 */

/* What a tool of a build leaves behind. Mounts, so for root. */
#include "common/auto.h"
#include "common/clock.h"
#include "common/err.h"
#include "sandboxd/builder/room.h"
#include "sandboxd/builder/tool.h"
#include "sandboxd/builder/tree.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define DEADLINE_NS (30 * CR_NS_PER_S)

struct place {
    char path[40];
    int fd;
};

static int make_place(void **state)
{
    static struct place place;

    test_folder_make(place.path, sizeof(place.path));
    place.fd = open(place.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = &place;
    return mkdirat(place.fd, "root", 0755) < 0 || mkdirat(place.fd, "root/shm", 0755) < 0 ? -1 : 0;
}

static int remove_place(void **state)
{
    struct place *place = *state;
    int r = sbx_tree_remove(place->fd, "root");

    (void)close(place->fd);
    return r == 0 && rmdir(place->path) == 0 ? 0 : -1;
}

static const struct sbx_room all_room = {.most_bytes = UINT64_MAX};

static int run_in(const struct place *place, const char *script, int64_t deadline_ns,
                  const struct sbx_room *room, uint64_t memory_bytes)
{
    CR_AUTO_CLOSE int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    const char *const argv[] = {"/bin/sh", "-ec", script, NULL};
    const struct sbx_tool tool = {.argv = argv,
                                  .folder = place->path,
                                  .is_free = true,
                                  .output_fd = null_fd,
                                  .deadline_ns = cr_clock_mono_ns() + deadline_ns,
                                  .room = room,
                                  .memory_bytes = memory_bytes};
    struct cr_err err = CR_ERR_INIT;

    return sbx_tool_run(&tool, &err);
}

static int run(const struct place *place, const char *script, int64_t deadline_ns)
{
    return run_in(place, script, deadline_ns, &all_room, 0);
}

static bool is_mounted(const struct place *place)
{
    struct stat root;
    struct stat shm;

    assert_int_equal(fstatat(place->fd, "root", &root, 0), 0);
    assert_int_equal(fstatat(place->fd, "root/shm", &shm, 0), 0);
    return root.st_dev != shm.st_dev;
}

/* One that ends well and one that is killed, as mmdebstrap is when somebody interrupts a build. */
static void what_a_tool_mounts_goes_with_it(void **state)
{
    const struct place *place = *state;

    if (geteuid() != 0)
        skip();
    assert_int_equal(run(place, "mount -t tmpfs none root/shm; touch made", DEADLINE_NS), 0);
    assert_int_equal(unlinkat(place->fd, "made", 0), 0); /* it did mount */
    assert_false(is_mounted(place));
    assert_int_equal(run(place, "mount -t tmpfs none root/shm; touch made; sleep 60", CR_NS_PER_S),
                     -ETIMEDOUT);
    (void)unlinkat(place->fd, "made", 0);
    assert_false(is_mounted(place));
}

/* In a namespace of its own, so that nothing stays mounted here. Returns the exit code. */
static int remove_mounted(const struct place *place)
{
    char path[sizeof(place->path) + 16];
    char kept[sizeof(path) + 8];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/root/shm", place->path);
    (void)snprintf(kept, sizeof(kept), "%s/kept", path);
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("none", path, "tmpfs", 0, NULL) < 0 || mknodat(AT_FDCWD, kept, S_IFREG | 0600, 0) < 0)
        return 2;
    /* The folder of this namespace: through the other one nothing is mounted there. */
    fd = open(place->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (sbx_tree_remove(fd, "root") != -EXDEV)
        return 3;
    return access(kept, F_OK) == 0 ? 0 : 4;
}

static void what_is_mounted_in_a_tree_is_not_removed(void **state)
{
    int status = 0;
    pid_t pid;

    if (geteuid() != 0)
        skip();
    pid = fork();
    if (pid == 0)
        _exit(remove_mounted(*state));
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* As what an archive of kilobytes makes tar write; slowly, so that it is seen in time. */
static void a_tool_leaves_room(void **state)
{
    const struct place *place = *state;
    struct sbx_room room;

    if (geteuid() != 0)
        skip();
    assert_int_equal(sbx_room_measure(place->path, &room, NULL), 0);
    assert_true(room.most_bytes / 3 <= room.least_bytes + 3);
    assert_false(sbx_room_is_used_up(&room, place->path));
    room.least_bytes += room.most_bytes - (4U << 20); /* four MiB may go */
    assert_int_equal(run_in(place,
                            "while :; do head -c 1048576 /dev/zero >> root/big; sleep 0.05; done",
                            DEADLINE_NS, &room, 0),
                     -EFBIG);
}

/* It takes none on the disk; whoever reads it has to read it all. */
static void a_tool_makes_no_file_that_is_larger_than_the_room(void **state)
{
    const struct sbx_room room = {.most_bytes = 1U << 20};
    const struct place *place = *state;

    if (geteuid() != 0)
        skip();
    assert_int_equal(run_in(place, "truncate -s 1M root/holes", DEADLINE_NS, &room, 0), 0);
    assert_int_equal(run_in(place, "exec truncate -s 2M root/holes", DEADLINE_NS, &room, 0),
                     -EFBIG);
}

static void a_tool_has_the_memory_that_it_is_given(void **state)
{
    static const char script[] = "dd if=/dev/zero of=/dev/null bs=256M count=1";
    const struct place *place = *state;

    if (geteuid() != 0)
        skip();
    assert_int_equal(run_in(place, script, DEADLINE_NS, &all_room, 0), 0);
    assert_int_equal(run_in(place, script, DEADLINE_NS, &all_room, UINT64_C(128) << 20), -EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_a_tool_mounts_goes_with_it, make_place, remove_place),
        cmocka_unit_test_setup_teardown(what_is_mounted_in_a_tree_is_not_removed, make_place,
                                        remove_place),
        cmocka_unit_test_setup_teardown(a_tool_leaves_room, make_place, remove_place),
        cmocka_unit_test_setup_teardown(a_tool_makes_no_file_that_is_larger_than_the_room,
                                        make_place, remove_place),
        cmocka_unit_test_setup_teardown(a_tool_has_the_memory_that_it_is_given, make_place,
                                        remove_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
