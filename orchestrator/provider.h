/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

struct agt_config;
struct agt_model;
struct cr_err;

/*
 * The model client that the settings choose. `max_attempts` requests for each
 * call at most; 0: the client's default. Returns 0, -EINVAL naming the
 * setting, -ENOMEM.
 */
int agt_provider_open(const struct agt_config *config, uint32_t max_attempts,
                      struct agt_model **ret_model, struct cr_err *err);
