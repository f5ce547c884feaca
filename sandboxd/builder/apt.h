/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What apt, which mmdebstrap runs, has to say about packages that it does not get. */

/*
 * Where the keys of Debian's archive are: the file of its package
 * debian-archive-keyring, or the folder of what this host's apt trusts. Static.
 */
const char *sbx_apt_keyring(void);

/*
 * Pure: why apt failed and what helps, by its own words in `log` (untrusted: it quotes mirrors).
 * NULL when none of them is known. Static.
 */
const char *sbx_apt_reason(const char *log);
