/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/check_config.h"

#include "common/config.h"
#include "common/err.h"
#include "orchestrator/config.h"
#include "orchestrator/config_table.h"
#include "orchestrator/model/model.h"
#include "orchestrator/provider.h"
#include "rpc/client.h"

#include <stddef.h>

int agt_check_config(const struct agt_config *config, struct cr_err *err)
{
    struct agt_model *model = NULL;
    int r = rpc_channel_check_target(config->sandbox, err);

    if (r < 0)
        return cr_err_wrap(err, "sandbox");
    r = agt_provider_open(config, 0, &model, err);
    if (r < 0)
        return cr_err_wrap(err, "the model client");
    model->ops->free(model);
    cr_config_print(agt_config_program.settings, agt_config_program.count, config);
    return 0;
}
