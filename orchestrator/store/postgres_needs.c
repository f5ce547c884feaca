/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "orchestrator/store/store.h"

#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

/* Options of libpq that name a file which it opens. */
static const char *const file_options[] = {"passfile", "sslcert", "sslkey", "sslrootcert",
                                           "sslcrl"};

static const char *value_of(const PQconninfoOption *options, const char *keyword)
{
    for (; options && options->keyword; options++) {
        if (strcmp(options->keyword, keyword) == 0)
            return options->val;
    }
    return NULL;
}

/*
 * What libpq adds by itself: from the environment and from the service file.
 * It has no function that does so for a service which an address names, so the
 * environment says it for a moment.
 */
static PQconninfoOption *load_defaults(const char *service)
{
    PQconninfoOption *defaults;

    /* NOLINTBEGIN(concurrency-mt-unsafe): before any thread starts */
    if (service && setenv("PGSERVICE", service, 1) < 0)
        return NULL;
    defaults = PQconndefaults();
    if (service)
        (void)unsetenv("PGSERVICE");
    /* NOLINTEND(concurrency-mt-unsafe) */
    return defaults;
}

static void tell_ports(const char *list, void (*on_port)(void *user, unsigned long port),
                       void *user)
{
    while (*list) {
        char *end = NULL;
        unsigned long port = strtoul(list, &end, 10);

        if (end == list)
            return;
        on_port(user, port);
        list = end + strspn(end, ",");
    }
}

int agt_store_postgres_needs(const char *uri, const struct agt_postgres_needs *needs,
                             struct cr_err *err)
{
    PQconninfoOption *given = PQconninfoParse(uri, NULL);
    PQconninfoOption *defaults = given ? load_defaults(value_of(given, "service")) : NULL;
    const char *service_file = secure_getenv("PGSERVICEFILE");
    const char *port = value_of(given, "port");

    if (!given || !defaults) {
        PQconninfoFree(given);
        return cr_err_set(err, EINVAL,
                          "store: it is no address of a PostgreSQL database, or its service is "
                          "not in the service file");
    }
    if (!port)
        port = value_of(defaults, "port");
    tell_ports(port ? port : "5432", needs->on_port, needs->user);
    if (service_file)
        needs->on_file(needs->user, service_file);
    for (size_t i = 0; i < CR_ARRAY_SIZE(file_options); i++) {
        const char *file = value_of(given, file_options[i]);

        if (!file)
            file = value_of(defaults, file_options[i]);
        if (file && file[0] == '/')
            needs->on_file(needs->user, file);
    }
    PQconninfoFree(defaults);
    PQconninfoFree(given);
    return 0;
}
