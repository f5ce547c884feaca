/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cr_err;

/*
 * Internal to orchestrator/store: a connection to PostgreSQL on which nothing
 * waits for longer than its deadline. One thread at a time. After any failure
 * of the connection it is closed (handle NULL), and what was asked last may or
 * may not have been done.
 */
struct agt_pg_link {
    PGconn *handle; /* NULL: not connected */
};

#define AGT_PG_DEADLINE_MS 10000

/* Refuses what is no URI for libpq, or has a password. */
int agt_pg_check_uri(const char *uri, struct cr_err *err);

int agt_pg_connect(struct agt_pg_link *link, const char *uri, struct cr_err *err);
void agt_pg_close(struct agt_pg_link *link); /* safe to repeat */

/* Parameters of a statement: texts, or (size not negative) bytes. */
#define AGT_PG_PARAMS_MAX 12

struct agt_pg_params {
    const char *values[AGT_PG_PARAMS_MAX];
    int sizes[AGT_PG_PARAMS_MAX];
    int formats[AGT_PG_PARAMS_MAX]; /* 0: text, 1: bytes */
    int count;
};

/* A number or a boolean of a result in binary. */
uint64_t agt_pg_number(const PGresult *result, int row, int column);

void agt_pg_add_text(struct agt_pg_params *params, const char *text);
void agt_pg_add_bytes(struct agt_pg_params *params, const void *data, size_t size);

/*
 * Runs one statement with results in text (or in bytes) and returns what it
 * gave, to be freed with PQclear(). NULL, with an error, when it failed.
 */
PGresult *agt_pg_ask(struct agt_pg_link *link, const char *statement,
                     const struct agt_pg_params *params, bool has_bytes, struct cr_err *err);

/* The same for statements without parameters and results, several at once. Returns 0 or -errno. */
int agt_pg_do(struct agt_pg_link *link, const char *statements, struct cr_err *err);

/*
 * One transaction of statements, sent at once. on_result gets what each gave,
 * in order, before it is known whether all is committed. After a failure
 * nothing was written, or (-EHOSTUNREACH) perhaps everything.
 *
 * No statement is prepared by name: behind a pooler that pools by transaction
 * (pgbouncer) the next transaction has another connection to the server, which
 * does not know the name, or knows it from another client.
 */
struct agt_pg_step {
    const char *text;
    const Oid *types; /* object ids, one per parameter */
    struct agt_pg_params params;
};

int agt_pg_transact(struct agt_pg_link *link, size_t count,
                    void (*fill)(void *user, size_t index, struct agt_pg_step *ret_step),
                    void (*on_result)(void *user, size_t index, const PGresult *result), void *user,
                    struct cr_err *err);

/* Takes in what the server sent meanwhile. True when there was a notification. */
bool agt_pg_look(struct agt_pg_link *link);
