/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct cr_err;
struct cr_notify;
struct sbx_settings;

/*
 * Opens the sockets, starts backend and front, keeps them running, and stops
 * them after SIGTERM or SIGINT: the front drains first, then the backend ends.
 * A second signal ends everything at once. SIGHUP, and a change of the files
 * themselves, makes the front take new certificates. One thread, no state outside.
 *
 * Returns 0 after a clean stop, or -errno when it could not start, a child
 * failed for good, or a child had to be killed.
 */
int sbx_supervisor_run(const struct sbx_settings *settings, const struct cr_notify *notify,
                       struct cr_err *err);
