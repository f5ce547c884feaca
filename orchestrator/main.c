/* SPDX-License-Identifier: Apache-2.0 */
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "common/notify.h"
#include "common/turns.h"
#include "orchestrator/check_config.h"
#include "orchestrator/check_model.h"
#include "orchestrator/config.h"
#include "orchestrator/confine.h"
#include "orchestrator/links.h"
#include "orchestrator/process.h"
#include "orchestrator/receipt/sign.h"
#include "orchestrator/stack.h"

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#define SERVING "READY=1\nSTATUS=serving"
#define LOOK_MS 2000  /* between two looks at files, at sandboxd and at our threads */
#define LOOKS_MAX 30  /* without a sign of life of one of those threads: it ends */
#define LOOKS_STILL 4 /* … and these: the manager does not hear that all is well */
/* Beyond --drain-delay-ms and --grace-ms: calls that are cut off, the store, the last words. */
#define END_MS 30000

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

/* What was read before privileges were dropped, since files may be root's alone. */
struct secrets {
    struct agt_links *links;
    struct agt_signer *signer;
};

/* False while one of the threads stands still; it ends the process when that lasts. */
static bool is_turning(const struct agt_stack *stack,
                       struct cr_turns_watch watches[AGT_STACK_LOOPS_MAX])
{
    struct agt_stack_loop loops[AGT_STACK_LOOPS_MAX];
    size_t count = agt_stack_loops(stack, loops);
    bool are_all = true;

    for (size_t i = 0; i < count; i++) {
        unsigned int looks = cr_turns_look(&watches[i], loops[i].turns);

        if (looks >= LOOKS_MAX) {
            cr_log_error("the thread of %s stands still, ending looks=%u", loops[i].name, looks);
            abort();
        }
        are_all = are_all && looks < LOOKS_STILL;
    }
    return are_all;
}

/* On a signal, and now and then: what came of new files is in the log. */
static void refresh(struct agt_links *links, struct rpc_channel *channel,
                    const struct cr_notify *notify, bool was_asked)
{
    if (was_asked)
        cr_notify_reloading(notify);
    agt_links_refresh(links, channel, was_asked);
    if (was_asked)
        cr_notify_send(notify, SERVING);
}

/* Until the process is asked to end; returns the signal. */
static int wait_for_end(struct agt_stack *stack, struct agt_links *links,
                        const struct cr_notify *notify, const sigset_t *signals)
{
    int64_t look_ms = LOOK_MS;
    struct cr_turns_watch watches[AGT_STACK_LOOPS_MAX] = {{0, 0}};
    int received;

    if (notify->watchdog_ns > 0 && notify->watchdog_ns / CR_NS_PER_MS < look_ms)
        look_ms = notify->watchdog_ns / CR_NS_PER_MS;
    do {
        received = agt_process_wait(signals, (int)look_ms);
        if (received == 0 || received == SIGHUP)
            refresh(links, agt_stack_channel(stack), notify, received == SIGHUP);
        if (received == 0)
            agt_stack_look(stack);
        if (received == 0 && is_turning(stack, watches) && notify->watchdog_ns > 0)
            cr_notify_send(notify, "WATCHDOG=1");
    } while (received == 0 || received == SIGHUP);
    agt_process_unblock(signals);
    return received;
}

/* Callers see that we go while they are still served. */
static void withdraw(struct agt_stack *stack, uint64_t delay_ms)
{
    agt_stack_withdraw(stack);
    if (delay_ms > 0)
        (void)poll(NULL, 0, (int)delay_ms);
}

static int serve(const struct agt_config *config, bool has_landlock, const struct secrets *secrets,
                 const struct cr_notify *notify, const sigset_t *signals, struct cr_err *err)
{
    struct agt_stack *stack = NULL;
    int received;
    int r;

    r = agt_stack_up(config, secrets->links, has_landlock, secrets->signer, &stack, err);
    if (r < 0)
        return r;
    agt_stack_log_ready(stack, config);
    cr_notify_send(notify, SERVING);
    received = wait_for_end(stack, secrets->links, notify, signals);
    cr_notify_stopping(notify, "live runs go on",
                       (int64_t)(config->drain_delay_ms + config->grace_ms) + END_MS);
    cr_log_info("stopping signal=%d grace_ms=%llu", received, (unsigned long long)config->grace_ms);
    withdraw(stack, config->drain_delay_ms);
    agt_stack_drain(stack, (int)config->grace_ms);
    (void)agt_stack_down(stack);
    cr_log_info("stopped");
    return 0;
}

static int run(struct agt_config *config, const struct secrets *secrets, struct cr_err *err)
{
    struct cr_notify notify = CR_NOTIFY_INIT;
    bool has_landlock = false;
    sigset_t signals;
    int r = config->must_check ? 0 : cr_notify_open(&notify, err);

    if (r == 0)
        r = confine(config, &has_landlock, err);
    if (r == 0)
        r = agt_process_block_signals(&signals, err);
    if (r < 0)
        return r;
    agt_process_wipe_environment("GEMINI_API_KEY");
    agt_process_wipe_environment("GOOGLE_API_KEY");
    agt_process_wipe_environment("OPENAI_API_KEY");
    agt_process_wipe_environment("OTEL_EXPORTER_OTLP_HEADERS");
    if (config->must_check)
        return agt_check_model(config, err);
    agt_process_raise_files();
    agt_process_share_memory();
    agt_config_log(config);
    r = serve(config, has_landlock, secrets, &notify, &signals, err);
    cr_notify_close(&notify);
    return r;
}

static int read_secrets(const struct agt_config *config, struct secrets *secrets,
                        struct cr_err *err)
{
    int r = 0;

    if (config->must_check)
        return 0;
    if (config->receipt_key)
        r = agt_signer_load(config->receipt_key, &secrets->signer, err);
    return r == 0 ? agt_links_open(config, &secrets->links, err) : r;
}

int main(int argc, char **argv)
{
    struct agt_config config = {.listen = NULL};
    struct secrets secrets = {NULL, NULL};
    struct cr_err err = CR_ERR_INIT;
    int r;

    cr_log_setup("orchestrator", CR_LOG_INFO, CR_LOG_TEXT);
    r = agt_config_load(argc, argv, &config, &err);
    if (r == 0 && config.must_check_config) {
        r = agt_check_config(&config, &err);
        r = r < 0 ? r : 1;
    }
    if (r == 0)
        r = read_secrets(&config, &secrets, &err);
    if (r == 0)
        r = run(&config, &secrets, &err);
    (void)agt_links_free(secrets.links);
    (void)agt_signer_free(secrets.signer);
    agt_config_done(&config);
    if (r < 0)
        cr_log_error("%s%s", config.must_check ? "" : "cannot serve: ", err.text);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
