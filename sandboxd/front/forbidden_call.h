/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * What a person calls the call of a SECURITY_VIOLATION: "ptrace", "a call of
 * another ABI (32-bit or x32)", "system call 512". Pure.
 */
void sbx_forbidden_call_name(uint32_t call, char *text, size_t size);
