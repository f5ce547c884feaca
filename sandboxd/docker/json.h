/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>

/* A cJSON tree that is freed with its scope. */
#define CR_AUTO_JSON __attribute__((cleanup(sbx_json_freep)))

static inline void sbx_json_freep(cJSON **json)
{
    cJSON_Delete(*json);
}
