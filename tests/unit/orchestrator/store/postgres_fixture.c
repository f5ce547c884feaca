/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/orchestrator/store/postgres_fixture.h"

#include "common/err.h"
#include "common/log.h"

#include <stdlib.h>

const char *postgres_uri(void)
{
    return getenv("CRISOL_TEST_POSTGRES"); // NOLINT(concurrency-mt-unsafe): nobody sets it
}

void postgres_execute(const char *statement)
{
    PGconn *connection = PQconnectdb(postgres_uri());
    PGresult *result;

    assert_int_equal(PQstatus(connection), CONNECTION_OK);
    result = PQexec(connection, statement);
    if (PQresultStatus(result) == PGRES_FATAL_ERROR)
        fail_msg("%s", PQresultErrorMessage(result));
    PQclear(result);
    PQfinish(connection);
}

struct agt_store *postgres_open(void *user)
{
    const struct agt_postgres_options options = {.uri = postgres_uri(),
                                                 .lease_ms = POSTGRES_LEASE_MS};
    struct agt_store *store = NULL;
    struct cr_err err = CR_ERR_INIT;

    (void)user;
    if (agt_store_postgres_new(&options, &store, &err) < 0)
        fail_msg("%s", err.text);
    return store;
}

int postgres_set_up(void **state)
{
    (void)state;
    cr_log_setup("test", CR_LOG_ERROR, CR_LOG_TEXT);
    postgres_execute(
        "SET client_min_messages = warning;"
        "DROP TABLE IF EXISTS crisol_requests, crisol_events, crisol_runs, crisol_schema");
    return 0;
}

void postgres_close(struct agt_store *take_store)
{
    take_store->ops->watch(take_store, NULL, NULL);
    take_store->ops->free(take_store);
}

PGconn *postgres_lock(const char *statement)
{
    PGconn *session = PQconnectdb(postgres_uri());

    PQclear(PQexec(session, "BEGIN"));
    PQclear(PQexec(session, statement));
    assert_int_equal(PQtransactionStatus(session), PQTRANS_INTRANS);
    return session;
}

void postgres_unlock(PGconn *take_session)
{
    PQclear(PQexec(take_session, "COMMIT"));
    PQfinish(take_session);
}
