/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/supervisor/open_files.h"

#include "common/err.h"

#include <errno.h>

#include <sys/resource.h>

/* With 700 the backend cannot make all of its groups on two cores; 1,024 is what a Linux session
 * has at least. */
#define LEAST 1024

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
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) < 0)
        return cr_err_sys(err, errno, "raise the limit of open files");
    return 0;
}
