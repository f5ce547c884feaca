/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct cr_config_program;

/* Internal to orchestrator/config.c: what can be set, into which member of struct agt_config. */
extern const struct cr_config_program agt_config_program;
