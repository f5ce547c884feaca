/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct agt_config;
struct cr_err;

/*
 * Asks the configured model for one word, with one HTTP request that is never
 * repeated, and prints on stdout who answered and what it cost. Returns 0 when
 * an answer came; a text that says what to do otherwise.
 */
int agt_check_model(const struct agt_config *config, struct cr_err *err);
