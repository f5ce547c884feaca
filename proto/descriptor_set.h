/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* The serialized google.protobuf.FileDescriptorSet of every proto here, for reflection. */
extern const uint8_t crisol_descriptor_set[];
extern const uint8_t crisol_descriptor_set_end[]; /* first byte behind it */
