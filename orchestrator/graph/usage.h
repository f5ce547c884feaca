/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/agent/v1/agent.pb-c.h"

/*
 * Adds what one call of a model took to what a run has taken. The numbers are
 * the provider's word: a sum that does not fit stays at the largest number, so
 * that no budget ends below what was told. cost_is_known is left as it is.
 */
void agt_usage_add(Crisol__Agent__V1__ModelUsage *sum, const Crisol__Agent__V1__ModelUsage *call);
