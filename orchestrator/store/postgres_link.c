/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/store/postgres_link.h"

#include "common/clock.h"
#include "common/err.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* A message of libpq ends with a line feed, and may have several lines: the first will do. */
static int fail(struct agt_pg_link *link, const char *message, const char *what, struct cr_err *err)
{
    int length = (int)strcspn(message, "\n");
    bool is_lost = !link->handle || PQstatus(link->handle) != CONNECTION_OK;

    (void)cr_err_set(err, is_lost ? EHOSTUNREACH : EIO, "%s: %.*s", what, length, message);
    if (is_lost)
        agt_pg_close(link);
    return is_lost ? -EHOSTUNREACH : -EIO;
}

int agt_pg_check_uri(const char *uri, struct cr_err *err)
{
    char *message = NULL;
    PQconninfoOption *options = PQconninfoParse(uri, &message);
    int r = 0;

    if (!options)
        r = cr_err_set(err, EINVAL, "it is no address of a database: %.*s",
                       message ? (int)strcspn(message, "\n") : 0, message ? message : "");
    for (const PQconninfoOption *option = options; option && option->keyword; option++) {
        bool is_secret = strcmp(option->keyword, "password") == 0 ||
                         strcmp(option->keyword, "sslpassword") == 0; /* of sslkey */

        if (is_secret && option->val)
            r = cr_err_set(err, EINVAL,
                           "a password must not stand in it, where others can read it; put it "
                           "into a password file (…?passfile=/path) or a service file");
    }
    PQconninfoFree(options);
    PQfreemem(message);
    return r;
}

static bool wait_for(int fd, short events, int64_t until_ns)
{
    struct pollfd waiter = {.fd = fd, .events = events};
    int64_t left_ms = (until_ns - cr_clock_mono_ns()) / CR_NS_PER_MS;

    return left_ms > 0 && poll(&waiter, 1, (int)left_ms) > 0;
}

static void ignore_notice(void *user, const char *message)
{
    (void)user;
    (void)message;
}

/* What a statement may take, should this process be stopped while the server waits for it. */
static const char settings[] = "SET synchronous_commit = on;"
                               "SET statement_timeout = 10000;"
                               "SET lock_timeout = 5000;"
                               "SET idle_in_transaction_session_timeout = 10000;"
                               "SET client_min_messages = warning;"
                               "SET bytea_output = hex;"
                               "LISTEN crisol_runs";

static int shake_hands(struct agt_pg_link *link, struct cr_err *err)
{
    int64_t until_ns = cr_clock_mono_ns() + AGT_PG_DEADLINE_MS * CR_NS_PER_MS;
    PostgresPollingStatusType state = PGRES_POLLING_WRITING;

    while (state != PGRES_POLLING_OK) {
        short events = state == PGRES_POLLING_READING ? POLLIN : POLLOUT;

        if (state == PGRES_POLLING_FAILED || PQsocket(link->handle) < 0)
            return fail(link, PQerrorMessage(link->handle), "connect", err);
        if (!wait_for(PQsocket(link->handle), events, until_ns)) {
            agt_pg_close(link);
            return cr_err_set(err, EHOSTUNREACH, "connect: the server does not answer");
        }
        state = PQconnectPoll(link->handle);
    }
    return 0;
}

int agt_pg_connect(struct agt_pg_link *link, const char *uri, struct cr_err *err)
{
    static const char *const keywords[] = {"dbname", "application_name", "keepalives_idle",
                                           "tcp_user_timeout", NULL};
    const char *const values[] = {uri, "crisol", "10", "10000", NULL};
    int r;

    agt_pg_close(link);
    link->handle = PQconnectStartParams(keywords, values, 1);
    if (!link->handle)
        return cr_err_set(err, ENOMEM, "out of memory for the store");
    if (PQstatus(link->handle) == CONNECTION_BAD)
        return fail(link, PQerrorMessage(link->handle), "connect", err);
    r = shake_hands(link, err);
    if (r < 0)
        return r;
    (void)PQsetNoticeProcessor(link->handle, ignore_notice, NULL);
    (void)PQsetnonblocking(link->handle, 1);
    if (PQserverVersion(link->handle) < 120000) {
        agt_pg_close(link);
        return cr_err_set(err, EPROTO, "the server is older than PostgreSQL 12");
    }
    return agt_pg_do(link, settings, err);
}

void agt_pg_close(struct agt_pg_link *link)
{
    PQfinish(link->handle);
    link->handle = NULL;
}

void agt_pg_add_text(struct agt_pg_params *params, const char *text)
{
    params->values[params->count] = text;
    params->sizes[params->count] = 0;
    params->formats[params->count++] = 0;
}

void agt_pg_add_bytes(struct agt_pg_params *params, const void *data, size_t size)
{
    params->values[params->count] = size > 0 ? data : "";
    params->sizes[params->count] = (int)size;
    params->formats[params->count++] = 1;
}

uint64_t agt_pg_number(const PGresult *result, int row, int column)
{
    const uint8_t *bytes = (const uint8_t *)PQgetvalue(result, row, column);
    uint64_t number = 0;

    for (int i = 0; i < PQgetlength(result, row, column); i++)
        number = number << 8 | bytes[i];
    return number;
}

/* Sends what is queued and waits until a result can be taken without waiting. */
static bool wait_for_result(struct agt_pg_link *link, int64_t until_ns)
{
    int left = PQflush(link->handle);

    while (left > 0 || (left == 0 && PQisBusy(link->handle))) {
        short events = left > 0 ? POLLIN | POLLOUT : POLLIN;

        if (!wait_for(PQsocket(link->handle), events, until_ns) ||
            PQconsumeInput(link->handle) == 0)
            return false;
        left = PQflush(link->handle);
    }
    return left == 0;
}

/* The last result of what was sent; the first that failed, if one did. */
static PGresult *collect(struct agt_pg_link *link, struct cr_err *err)
{
    int64_t until_ns = cr_clock_mono_ns() + AGT_PG_DEADLINE_MS * CR_NS_PER_MS;
    PGresult *kept = NULL;

    for (;;) {
        PGresult *result;

        if (!wait_for_result(link, until_ns)) {
            PQclear(kept);
            (void)cr_err_set(err, EHOSTUNREACH, "the connection broke, or the server was silent");
            agt_pg_close(link);
            return NULL;
        }
        result = PQgetResult(link->handle);
        if (!result)
            return kept;
        if (kept && PQresultStatus(kept) == PGRES_FATAL_ERROR) {
            PQclear(result);
            continue;
        }
        PQclear(kept);
        kept = result;
    }
}

static PGresult *take_good(struct agt_pg_link *link, const char *what, struct cr_err *err)
{
    PGresult *result = collect(link, err);
    ExecStatusType status = result ? PQresultStatus(result) : PGRES_FATAL_ERROR;

    if (!result || status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
        return result;
    (void)fail(link, PQresultErrorMessage(result), what, err);
    PQclear(result);
    return NULL;
}

PGresult *agt_pg_ask(struct agt_pg_link *link, const char *statement,
                     const struct agt_pg_params *params, bool has_bytes, struct cr_err *err)
{
    if (!link->handle) {
        (void)cr_err_set(err, EHOSTUNREACH, "there is no connection");
        return NULL;
    }
    if (PQsendQueryParams(link->handle, statement, params->count, NULL, params->values,
                          params->sizes, params->formats, has_bytes) == 0) {
        (void)fail(link, PQerrorMessage(link->handle), "ask", err);
        return NULL;
    }
    return take_good(link, "ask", err);
}

int agt_pg_do(struct agt_pg_link *link, const char *statements, struct cr_err *err)
{
    PGresult *result;

    if (!link->handle)
        return cr_err_set(err, EHOSTUNREACH, "there is no connection");
    if (PQsendQuery(link->handle, statements) == 0)
        return fail(link, PQerrorMessage(link->handle), "ask", err);
    result = take_good(link, "ask", err);
    if (!result)
        return link->handle ? -EIO : -EHOSTUNREACH;
    PQclear(result);
    return 0;
}

/* ---- a transaction in one go ---- */

static bool send_all(struct agt_pg_link *link, size_t count,
                     void (*fill)(void *user, size_t index, struct agt_pg_step *ret_step),
                     void *user)
{
    bool is_sent = PQenterPipelineMode(link->handle) == 1 &&
                   PQsendQueryParams(link->handle, "BEGIN", 0, NULL, NULL, NULL, NULL, 0) == 1;

    for (size_t i = 0; is_sent && i < count; i++) {
        struct agt_pg_step step = {.text = NULL};

        fill(user, i, &step);
        is_sent =
            PQsendQueryParams(link->handle, step.text, step.params.count, step.types,
                              step.params.values, step.params.sizes, step.params.formats, 0) == 1;
    }
    return is_sent &&
           PQsendQueryParams(link->handle, "COMMIT", 0, NULL, NULL, NULL, NULL, 0) == 1 &&
           PQpipelineSync(link->handle) == 1;
}

/* The result of the next statement, and the NULL behind it. NULL when the connection is gone. */
static PGresult *next_result(struct agt_pg_link *link, int64_t until_ns)
{
    PGresult *result;

    if (!wait_for_result(link, until_ns))
        return NULL;
    result = PQgetResult(link->handle);
    if (result && PQresultStatus(result) != PGRES_PIPELINE_SYNC) {
        if (!wait_for_result(link, until_ns)) {
            PQclear(result);
            return NULL;
        }
        PQclear(PQgetResult(link->handle));
    }
    return result;
}

static bool is_good(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);

    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK || status == PGRES_PIPELINE_SYNC;
}

static int lose(struct agt_pg_link *link, struct cr_err *err)
{
    agt_pg_close(link);
    return cr_err_set(err, EHOSTUNREACH, "the connection broke, or the server was silent");
}

int agt_pg_transact(struct agt_pg_link *link, size_t count,
                    void (*fill)(void *user, size_t index, struct agt_pg_step *ret_step),
                    void (*on_result)(void *user, size_t index, const PGresult *result), void *user,
                    struct cr_err *err)
{
    int64_t until_ns = cr_clock_mono_ns() + AGT_PG_DEADLINE_MS * CR_NS_PER_MS;
    int r = 0;

    if (!link->handle)
        return cr_err_set(err, EHOSTUNREACH, "there is no connection");
    if (!send_all(link, count, fill, user))
        return lose(link, err);
    for (size_t i = 0; i < count + 3; i++) { /* BEGIN, the steps, COMMIT, the synchronisation */
        PGresult *result = next_result(link, until_ns);

        if (!result)
            return lose(link, err);
        if (r == 0 && !is_good(result))
            r = cr_err_set(err, EIO, "write: %.*s",
                           (int)strcspn(PQresultErrorMessage(result), "\n"),
                           PQresultErrorMessage(result));
        else if (r == 0 && i > 0 && i <= count)
            on_result(user, i - 1, result);
        PQclear(result);
    }
    if (PQexitPipelineMode(link->handle) == 0)
        return lose(link, err);
    /* What failed ends the transaction only when it is told to. */
    return r < 0 && PQtransactionStatus(link->handle) != PQTRANS_IDLE &&
                   agt_pg_do(link, "ROLLBACK", NULL) < 0
               ? lose(link, err)
               : r;
}

bool agt_pg_look(struct agt_pg_link *link)
{
    bool has_some = false;
    PGnotify *notice;

    if (!link->handle)
        return false;
    if (PQconsumeInput(link->handle) == 0) {
        agt_pg_close(link);
        return false;
    }
    while ((notice = PQnotifies(link->handle)) != NULL) {
        PQfreemem(notice);
        has_some = true;
    }
    return has_some;
}
