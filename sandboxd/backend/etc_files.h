/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The users of every box, whatever its root file system says. */
#define SBX_ETC_PASSWD                                                                             \
    "root:x:0:0:root:/:/usr/sbin/nologin\n"                                                        \
    "sandbox:x:1000:1000:sandbox:/workspace:/bin/sh\n"                                             \
    "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"
#define SBX_ETC_GROUP "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n"
