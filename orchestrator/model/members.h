/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agt_reply_error;
struct cJSON;

/*
 * Reads single members of Gemini's JSON. A NULL object, an absent member and
 * one of the wrong type are all "not there".
 */
const struct cJSON *agt_member_array(const struct cJSON *object, const char *name);

/* Borrowed from the tree; NULL: not there. */
const char *agt_member_text(const struct cJSON *object, const char *name);

/* A number, or a number in a string (proto3 JSON writes 64-bit ones so). Out of range: clamped. */
uint32_t agt_member_u32(const struct cJSON *object, const char *name, uint32_t fallback);

/*
 * Copies a text into `room` bytes as one clean line: control characters
 * become blanks, ill-formed UTF-8 becomes U+FFFD, cut on a character border.
 * Leaves the target alone when the member is not there.
 */
void agt_member_copy(const struct cJSON *object, const char *name, char *target, size_t room);

/* Reads {"error": {…}}; false, and nothing changed, when `object` has no such member. */
bool agt_reply_error_read(const struct cJSON *object, struct agt_reply_error *error);
