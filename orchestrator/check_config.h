/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct agt_config;
struct cr_err;

/*
 * `--check-config`: judges the settings that a start hands on to others (the
 * address of sandboxd, the provider's), with what judges them there, and prints
 * all that would be in force. Connects to nobody. Returns 0, or a negative errno
 * with the name of the setting.
 */
int agt_check_config(const struct agt_config *config, struct cr_err *err);
