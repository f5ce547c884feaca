/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "common/log.h"
#include "orchestrator/check_model.h"
#include "orchestrator/config.h"
#include "orchestrator/confine.h"
#include "orchestrator/process.h"
#include "orchestrator/receipt/sign.h"
#include "orchestrator/stack.h"

#include <stdbool.h>
#include <stdlib.h>

/* Loses what it does not need, before the first thread and the first byte from outside. */
static int confine(const struct agt_config *config, bool *ret_has_landlock, struct cr_err *err)
{
    int landlock_abi = 0;
    int r = agt_process_confine((uint32_t)config->user, err);

    if (r == 0)
        r = agt_confine(config, &landlock_abi, err);
    if (r < 0)
        return r;
    if (landlock_abi == 0)
        cr_log_warn("this kernel has no Landlock; seccomp alone confines the orchestrator");
    else
        cr_log_info("confined by seccomp and Landlock version=%d", landlock_abi);
    *ret_has_landlock = landlock_abi > 0;
    return 0;
}

static int serve(const struct agt_config *config, bool has_landlock,
                 const struct agt_signer *signer, const sigset_t *signals, struct cr_err *err)
{
    struct agt_stack *stack = NULL;
    int received;
    int r;

    r = agt_stack_up(config, has_landlock, signer, &stack, err);
    if (r < 0)
        return r;
    agt_stack_log_ready(stack, config);
    received = agt_process_wait(signals);
    cr_log_info("stopping signal=%d grace_ms=%llu", received, (unsigned long long)config->grace_ms);
    agt_stack_drain(stack, (int)config->grace_ms);
    (void)agt_stack_down(stack);
    cr_log_info("stopped");
    return 0;
}

static int run(struct agt_config *config, const struct agt_signer *signer, struct cr_err *err)
{
    bool has_landlock = false;
    sigset_t signals;
    int r;

    r = confine(config, &has_landlock, err);
    if (r == 0)
        r = agt_process_block_signals(&signals, err);
    if (r < 0)
        return r;
    agt_process_wipe_environment("GEMINI_API_KEY");
    agt_process_wipe_environment("OPENAI_API_KEY");
    if (config->must_check)
        return agt_check_model(config, err);
    agt_process_raise_files();
    agt_process_share_memory();
    agt_config_log(config);
    return serve(config, has_landlock, signer, &signals, err);
}

int main(int argc, char **argv)
{
    struct agt_config config = {.listen = NULL};
    struct agt_signer *signer = NULL;
    struct cr_err err = CR_ERR_INIT;
    int r;

    cr_log_setup("orchestrator", CR_LOG_INFO, CR_LOG_TEXT);
    r = agt_config_load(argc, argv, &config, &err);
    /* The file may be root's alone. */
    if (r == 0 && config.receipt_key && !config.must_check)
        r = agt_signer_load(config.receipt_key, &signer, &err);
    if (r == 0)
        r = run(&config, signer, &err);
    (void)agt_signer_free(signer);
    agt_config_done(&config);
    if (r < 0)
        cr_log_error("%s%s", config.must_check ? "" : "cannot serve: ", err.text);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
