/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/selftest/docker_answers.h"

#include "common/auto.h"
#include "sandboxd/selftest/tester.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    const char *expected; /* NULL: as on native */
    const char *weaker;   /* NULL: nothing is a gap */
} answers[] = {
    /* Refused in another way: the place exists in a container, and its owner is somebody else. */
    {"write-dev", "EACCES|EROFS", NULL},
    {"init-memory", "EACCES", NULL},
    {"init-environ", "EACCES", NULL},
    {"init-fds", "EACCES", NULL},
    {"init-root", "EACCES", NULL},
    {"core-pattern", "EACCES|EROFS", NULL},
    {"sysrq", "ENOENT|EACCES|EROFS", NULL},
    {"shadow", "EACCES", NULL},    /* the image's */
    {"root-home", "EACCES", NULL}, /* likewise */
    {"resolv-conf", "ok", NULL},   /* one that names nobody: container.c */
    {"dev-tty", "ENXIO", NULL},    /* there is none behind it */
    {"root-mount", "ro", NULL},    /* programs lie on it, and none of them is setuid */
    {"usr-mount", "ro", NULL},
    {"host-sees-no-groups", "1000", NULL},
    {"workspace-size", "33554432 bytes, 2048 inodes", NULL},
    {"tmp-size", "25165824 bytes, 1536 inodes", NULL},
    /* Covered by an empty file, so that it opens: host-sees-no-keys and so on look for that. */
    {"keys", "ENOENT|ok", NULL},
    {"kcore", "ENOENT|ok", NULL},
    {"kallsyms", "ENOENT|ok", NULL},
    {"kernel-config", "ENOENT|ok", NULL},
    {"cpuinfo", "ENOENT|ok", NULL},
    {"shm-size", "8388608 bytes, 512 inodes", NULL},

    /* USER is partial: the ids are those of the host, and sandbox-init has them too. */
    {"kill-init", NULL, "ok"}, /* which the kernel ignores, as it is pid 1 */
    {"host-sees-own-user", NULL, "1000\t1000\t1000\t1000"},
    {"host-sees-user-namespace", NULL, "the host's"},
    {"init-is-another-user", NULL, "1000\t1000\t1000\t1000"},
    /* PROC is partial: no option of a container hides other processes, nor a mount's origin. Where
     * sandbox-init reads the counters, the folder of control groups is there, too. */
    {"cgroup-folder", NULL, "ok"},
    {"sys-folder", NULL, "ok"},
    {"host-sees-no-sys", NULL, "there"},
    {"mount-table", NULL, "overlay"},
    {"count-processes", NULL, "2 none"},
    {"see-other-box-processes", NULL, "2 none"},
    {"proc-mount", NULL, "nosuid,nodev,noexec"},
    /* DEV is partial: the engine makes terminals and mqueue. */
    {"dev-is-complete", NULL, "EEXIST"},
};

void sbx_docker_answer(struct sbx_item *item)
{
    for (size_t i = 0; i < CR_ARRAY_SIZE(answers); i++) {
        if (strcmp(answers[i].name, item->name) != 0)
            continue;
        if (answers[i].expected)
            (void)snprintf(item->expected, sizeof(item->expected), "%s", answers[i].expected);
        if (answers[i].weaker)
            (void)snprintf(item->weaker, sizeof(item->weaker), "%s", answers[i].weaker);
    }
}

size_t sbx_docker_answer_count(void)
{
    return CR_ARRAY_SIZE(answers);
}
