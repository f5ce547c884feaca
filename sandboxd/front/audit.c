/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/audit.h"

#include "common/log.h"
#include "sandboxd/front/request.h"
#include "sandboxd/front/run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 768

/* What a line says; empty texts are printed as "-". */
struct line {
    const char *caller;
    const char *request_id;
    const char *execution_id;
    const char *program;
    const char *policy;
    const char *verdict; /* of a run, or the gRPC code of a refusal */
    const char *reason;
};

static const char *or_dash(const char *text)
{
    return text && *text ? text : "-";
}

static int format_line(const struct line *line, char *text, size_t size)
{
    return snprintf(text, size,
                    "caller=%s request_id=%s execution_id=%s program_sha256=%s policy_digest=%s "
                    "verdict=%s reason=%s",
                    or_dash(line->caller), or_dash(line->request_id), or_dash(line->execution_id),
                    or_dash(line->program), or_dash(line->policy), or_dash(line->verdict),
                    or_dash(line->reason));
}

static void write_to_file(struct sbx_audit *audit, const char *text)
{
    char stamped[LINE_MAX_BYTES + 64];
    struct timespec now = {0};
    struct tm utc = {0};
    int size;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &utc);
    size = snprintf(stamped, sizeof(stamped), "time=%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ %s\n",
                    utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min,
                    utc.tm_sec, now.tv_nsec / 1000000, text);
    if (write(audit->fd, stamped, (size_t)size) == size) {
        atomic_store(&audit->is_failed, false);
    } else if (!atomic_exchange(&audit->is_failed, true)) {
        cr_log_error("lines of the audit log are lost; make room on its disk error=%s",
                     strerrordesc_np(errno));
    }
}

static void write_line(struct sbx_audit *audit, const struct line *line)
{
    char text[LINE_MAX_BYTES];

    (void)format_line(line, text, sizeof(text));
    if (audit->fd >= 0)
        write_to_file(audit, text);
    else
        cr_log_info("audit %s", text);
}

void sbx_audit_ended(struct sbx_audit *audit, const struct sbx_execution *execution)
{
    const struct sbx_outcome *outcome = &execution->outcome;
    bool is_refused = outcome->refusal != RPC_OK;
    const struct line line = {
        .caller = execution->caller,
        .request_id = execution->request_id,
        .execution_id = execution->id,
        .program = execution->program_digest,
        .policy = execution->policy_digest,
        .verdict = is_refused ? rpc_code_name(outcome->refusal)
                              : sbx_verdict_name(outcome->result.verdict),
        .reason = is_refused ? outcome->refusal_reason : NULL,
    };

    if (!audit || strcmp(execution->caller, SBX_CALLER_SELF) == 0)
        return;
    write_line(audit, &line);
}

void sbx_audit_refused(struct sbx_audit *audit, const char *caller, const char *request_id,
                       enum rpc_code code, const char *reason)
{
    const struct line line = {
        .caller = caller,
        .request_id = sbx_request_id_is_valid(request_id) ? request_id : NULL,
        .verdict = rpc_code_name(code),
        .reason = reason,
    };

    if (audit)
        write_line(audit, &line);
}
