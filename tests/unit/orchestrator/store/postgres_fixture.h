/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/store/store.h"
#include "tests/harness/test.h"
#include "tests/unit/orchestrator/store/store_suite.h"

#include <libpq-fe.h>

/*
 * Stores on a server that is started around the test, by tests/harness/postgres.py. Failures end
 * the test.
 */

#define POSTGRES_LEASE_MS 3000U /* as short as a busy machine allows */

#define POSTGRES_TEST(name) cmocka_unit_test_setup(name, postgres_set_up)

/* The address of the server; NULL: there is none, and nothing can be tested. */
const char *postgres_uri(void);

/* The setup of each test: no table is there. */
int postgres_set_up(void **state);

/* By somebody else, in a session of its own. */
void postgres_execute(const char *statement);

/* A store with leases of POSTGRES_LEASE_MS; the caller frees it. `user` is not used. */
struct agt_store *postgres_open(void *user);

/* Takes nothing up any more, and is freed. */
void postgres_close(struct agt_store *take_store);

/* A session in a transaction that holds a lock, until it is ended. */
PGconn *postgres_lock(const char *statement);
void postgres_unlock(PGconn *take_session);
