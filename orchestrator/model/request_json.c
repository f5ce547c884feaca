/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/model/request_json.h"

#include "common/err.h"

#include <cjson/cJSON.h>

bool agt_request_add_json(cJSON *object, const char *name, const char *json)
{
    cJSON *value = cJSON_Parse(json);

    if (value && cJSON_AddItemToObject(object, name, value))
        return true;
    cJSON_Delete(value);
    return false;
}

char *agt_request_take_text(cJSON *take_root, bool is_whole)
{
    char *json = is_whole ? cJSON_PrintUnformatted(take_root) : NULL;

    cJSON_Delete(take_root);
    return json;
}

int agt_request_take_body(cJSON *take_root, bool is_whole, char **ret_json, struct cr_err *err)
{
    char *json = agt_request_take_text(take_root, is_whole);

    if (!json)
        return cr_err_set(err, ENOMEM, "out of memory for a request to the model");
    *ret_json = json;
    return 0;
}

bool agt_request_set_seed(cJSON *object, uint32_t seed)
{
    cJSON_DeleteItemFromObjectCaseSensitive(object, "seed");
    /* int32 on the wire. */
    return cJSON_AddNumberToObject(object, "seed", seed & INT32_MAX) != NULL;
}
