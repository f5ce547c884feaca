/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/trace/span.h"

#include <stddef.h>

/*
 * A request of OTLP/HTTP with these spans, in JSON
 * (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding: ids as
 * hexadecimal digits, 64-bit integers as decimal strings, enums as numbers).
 * Pure. To free(); NULL without memory.
 */
char *agt_otlp_write(const char *service, const char *version, const struct agt_span *spans,
                     size_t count);
