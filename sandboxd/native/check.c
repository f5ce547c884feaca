/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "sandboxd/native/host.h"
#include "sandboxd/native/native.h"
#include "sandboxd/native/needs.h"
#include "sandboxd/native/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static void print_line(const char *status, const char *name, const char *text)
{
    (void)printf("%-4s  %s%s%s\n", status, name, *text ? ": " : "", text);
    (void)fflush(stdout); /* before a child could print it again */
}

static const char *name_of(const struct sbx_need *need)
{
    const char *capability = sbx_host_capability_name(need->argument);

    return need->argument_is_capability && capability ? capability : need->name;
}

static bool is_gap(const struct sbx_native *native, const struct sbx_need *need)
{
    const uint8_t state =
        need->control == SBX_NEED_NO_CONTROL ? SBX_ENFORCED : native->base.controls[need->control];

    return state == SBX_GAP || (state == SBX_PARTIAL && native->is_rootless);
}

/* Less than it is said to be, in a way that nobody has to accept; NULL: it is not. */
static const char *weakness(const struct sbx_native *native, const struct sbx_need *need)
{
    if (need->control != SBX_CONTROL_WALL_TIME || native->is_rootless ||
        native->base.controls[need->control] != SBX_PARTIAL)
        return NULL;
    return "none for us: an interpreter of a sandbox that lives on is stopped between two calls, "
           "but can have itself woken; mount the control group controller freezer, or set "
           "sandboxes to 0";
}

/* Returns how many needs are not met. */
static int check_needs(const struct sbx_native_settings *settings, struct sbx_native *native)
{
    const struct sbx_need *missing = NULL; /* a basis */
    int failed = 0;

    for (const struct sbx_need *need = sbx_needs; need->name; need++) {
        struct cr_err err = CR_ERR_INIT;
        int r;

        if (missing && !need->is_free) {
            print_line("SKIP", name_of(need), "not tried, because something above is missing");
            continue;
        }
        r = need->meet(settings, native, need->argument, &err);
        if (weakness(native, need))
            print_line("GAP", name_of(need), weakness(native, need));
        else if (is_gap(native, need))
            print_line("GAP", name_of(need), r < 0 ? err.text : "accepted");
        else
            print_line(r < 0 ? "FAIL" : "PASS", name_of(need), err.text);
        failed += r < 0;
        if (r < 0 && need->is_basis)
            missing = need;
    }
    return failed;
}

/* Programs that end well when a runtime is whole. */
static const struct {
    const char *runtime;
    const char *argv[4];
} trials[] = {
    {"pytest", {"/usr/bin/pytest", "--version"}},
    {"python", {"/usr/bin/python3", "-c", "import sqlite3, ssl, threading"}},
    {"shell", {"/bin/sh", "-c", "exit"}},
};

/* sandboxd starts without them, and does not offer them. Seen from below the boxes' root. */
static void check_runtimes(struct sbx_native *native)
{
    for (size_t i = 0; i < CR_ARRAY_SIZE(trials); i++) {
        const char *path = trials[i].argv[0];
        struct cr_err err = CR_ERR_INIT;
        char name[64];

        (void)snprintf(name, sizeof(name), "runtime %s", trials[i].runtime);
        if (faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) < 0)
            (void)cr_err_sys(&err, errno, "%s: install it to have this runtime", path);
        else
            (void)sbx_probe(native, trials[i].argv, &err);
        print_line(err.code < 0 ? "GAP" : "PASS", name, err.text);
    }
}

int sbx_native_check(const struct sbx_native_settings *settings, struct sbx_native *native)
{
    int failed;

    sbx_native_init(settings, native);
    failed = check_needs(settings, native);
    if (failed == 0)
        check_runtimes(native);
    sbx_native_stop(native);
    return failed > 0;
}
