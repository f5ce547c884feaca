/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/supervisor/open_files.h"

#include "common/err.h"
#include "common/log.h"

#include <errno.h>

#include <sys/resource.h>

/* The native backend counts what it needs itself, see sbx_host_files(): 1,163 for two runs with
 * control groups v1, and for 64 less than the kernel's own hard limit (INR_OPEN_MAX of
 * linux/fs.h). */
#define LEAST 1024
#define ENOUGH 4096

int sbx_open_files_raise(struct cr_err *err)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return cr_err_sys(err, errno, "read the limit of open files");
    if (files.rlim_max < LEAST)
        return cr_err_set(err, EMFILE,
                          "at most %llu files may be open at one time here, and sandboxd needs %d "
                          "or more: raise the hard limit (ulimit -Hn, or LimitNOFILE of its unit)",
                          (unsigned long long)files.rlim_max, LEAST);
    if (files.rlim_max < ENOUGH)
        cr_log_warn(
            "few files may be open: templates and runs may fail for want of them, going on; "
            "%d are enough (ulimit -Hn, or LimitNOFILE of the unit) limit=%llu",
            ENOUGH, (unsigned long long)files.rlim_max);
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) < 0)
        return cr_err_sys(err, errno, "raise the limit of open files");
    return 0;
}
