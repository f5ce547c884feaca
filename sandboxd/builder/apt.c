/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/builder/apt.h"

#include "common/auto.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* A cause comes before what follows from it: a repository whose key is unknown "is not signed",
 * too. */
static const struct {
    const char *words;
    const char *reason;
} reasons[] = {
    {"cannot start /usr/bin/mmdebstrap", "install the package mmdebstrap"},
    {"No space left on device", "there is no room left below --state-dir or in /tmp"},
    {"EXPKEYSIG", "the key that signs the archive has expired here: update the package "
                  "debian-archive-keyring, and look at this machine's clock"},
    {"KEYEXPIRED", "the key that signs the archive has expired here: update the package "
                   "debian-archive-keyring, and look at this machine's clock"},
    {"REVKEYSIG", "the key that signs the archive was revoked: update the package "
                  "debian-archive-keyring"},
    {"NO_PUBKEY", "this host does not have the key that signs the archive: install the package "
                  "debian-archive-keyring (other distributions have it, too), or a newer one if "
                  "build.suite is younger than it"},
    {"gpgv, gpgv2 or gpgv1 required", "install the package gpgv, with which apt looks at "
                                      "signatures"},
    {"is not valid yet", "the archive is younger than this machine's clock says: set the clock"},
    {"is expired (invalid since", "the archive has not been renewed: this machine's clock is "
                                  "wrong, or the mirror is no longer kept up"},
    {"resolving '", "the archive's name cannot be resolved: see the network, or name a proxy in "
                    "http_proxy"},
    {"resolve '", "the archive's name cannot be resolved: see the network, or name a proxy in "
                  "http_proxy"},
    {"Could not connect to", "the archive cannot be reached: see the network, or name a proxy in "
                             "http_proxy"},
    {"Unable to connect to", "the archive cannot be reached: see the network, or name a proxy in "
                             "http_proxy"},
    {"does not have a Release file", "the archive has no such suite: see build.suite"},
    {"Unable to locate package", "the suite has no package of a name in build.package"},
    {"has no installation candidate", "the suite has no package of a name in build.package"},
    {"is not signed", "the archive is not signed by a key of this host: install the package "
                      "debian-archive-keyring, or see the mirror"},
};

const char *sbx_apt_keyring(void)
{
    /* The second is its name from Debian 14 on. */
    static const char *const names[] = {"/usr/share/keyrings/debian-archive-keyring.gpg",
                                        "/usr/share/keyrings/debian-archive-keyring.pgp"};

    for (size_t i = 0; i < CR_ARRAY_SIZE(names); i++) {
        if (faccessat(AT_FDCWD, names[i], R_OK, 0) == 0)
            return names[i];
    }
    return "/etc/apt/trusted.gpg.d";
}

const char *sbx_apt_reason(const char *log)
{
    for (size_t i = 0; i < CR_ARRAY_SIZE(reasons); i++) {
        if (strstr(log, reasons[i].words))
            return reasons[i].reason;
    }
    return NULL;
}
