#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Starts PostgreSQL as the image postgres:17 does, for what compose.yaml asks of it: the same variables,
# and a first server, on the socket only, that sets the database up.
set -eu
bin=$(echo /usr/lib/postgresql/*/bin)
data=/var/lib/postgresql/data
PATH=$bin:$PATH
if [ ! -s "$data/PG_VERSION" ]; then
    chmod 700 "$data"
    initdb -D "$data" -U "$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE" -E UTF8 --locale=C.UTF-8 \
        --auth-local=scram-sha-256 "$POSTGRES_INITDB_ARGS"
    PGPASSWORD=$(cat "$POSTGRES_PASSWORD_FILE")
    export PGPASSWORD
    pg_ctl -D "$data" -w -o "-c listen_addresses='' -k /run/postgresql" start
    createdb -h /run/postgresql -U "$POSTGRES_USER" "$POSTGRES_DB"
    pg_ctl -D "$data" -m fast -w stop
fi
# The compiler that it would translate long queries with is not in the image.
exec postgres -D "$data" -k /run/postgresql -c jit=off -c listen_addresses='*'
