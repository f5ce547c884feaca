/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "sandboxd/builder/apt.h"
#include "tests/harness/test.h"

#include <string.h>

/* As apt 2.6 and mmdebstrap 1.3 say it. */
static const struct {
    const char *log;
    const char *wanted; /* a part of the reason; NULL: there is none */
} cases[] = {
    {"Err:1 http://mirror.example/debian bookworm InRelease\n"
     "  The following signatures couldn't be verified because the public key is not available: "
     "NO_PUBKEY 6ED0E7B82643E131\n"
     "E: The repository 'http://mirror.example/debian bookworm InRelease' is not signed.\n",
     "install the package debian-archive-keyring"},
    {"  The following signatures were invalid: EXPKEYSIG 6ED0E7B82643E131 Debian Archive\n"
     "E: The repository 'http://mirror/debian bookworm InRelease' is not signed.\n",
     "has expired here: update the package debian-archive-keyring"},
    {"  The following signatures were invalid: REVKEYSIG 6ED0E7B82643E131 Debian Archive\n",
     "was revoked: update the package debian-archive-keyring"},
    {"E: Release file for http://mirror/debian/dists/bookworm/InRelease is expired (invalid since "
     "3d 2h 1min 5s). Updates for this repository will not be applied.\n",
     "clock is wrong, or the mirror"},
    {"E: Release file for http://mirror/debian/dists/bookworm/InRelease is not valid yet (invalid "
     "for another 9h 1min 5s). Updates for this repository will not be applied.\n",
     "set the clock"},
    {"  Temporary failure resolving 'mirror.example'\n", "name a proxy in http_proxy"},
    {"  Could not resolve 'mirror.example'\n", "name a proxy in http_proxy"},
    {"  Could not connect to mirror.example:80 (192.0.2.1), connection timed out\n",
     "cannot be reached"},
    {"E: The repository 'http://mirror.example/debian nosuchsuite Release' does not have a Release "
     "file.\n",
     "see build.suite"},
    {"E: Unable to locate package nosuchpackage\n", "build.package"},
    {"cannot start /usr/bin/mmdebstrap: No such file or directory\n",
     "install the package mmdebstrap"},
    {"gpgv, gpgv2 or gpgv1 required for verification, but neither seems installed\n",
     "install the package gpgv"},
    {"E: The repository 'http://mirror/debian bookworm Release' is not signed.\n",
     "not signed by a key of this host"},
    {"cp: error writing: No space left on device\n", "no room left"},
    {"E: something else\n", NULL},
    {"", NULL},
};

static void each_failure_names_what_helps(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        const char *reason = sbx_apt_reason(cases[i].log);

        if (!cases[i].wanted)
            assert_null(reason);
        else
            assert_true(reason && strstr(reason, cases[i].wanted));
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_failure_names_what_helps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
