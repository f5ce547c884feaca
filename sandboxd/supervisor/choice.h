/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

struct cr_err;
struct sbx_settings;

/*
 * Which backend runs the programs. `auto` is docker when the settings name an
 * image or a base and an engine answers, else native; why is logged. Asks the
 * engine through sandboxd-docker, a few seconds at most.
 */
int sbx_choice_make(const struct sbx_settings *settings, bool *ret_is_docker, struct cr_err *err);
