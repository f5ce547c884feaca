/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/edge.h"

#include <stdbool.h>
#include <stdint.h>

struct agt_catalog;
struct cr_err;

/* The settings of the orchestrator. The strings are owned. */
struct agt_config {
    char *listen;          /* gRPC: "host:port" or "unix:/path" */
    char *http;            /* REST and SSE: "host:port"; "": none */
    char *health_listen;   /* health checks alone: "host:port"; NULL: none */
    char *http_hosts;      /* further Host names; NULL: none */
    char *http_origins;    /* origins whose pages may use REST; NULL: none */
    char *token_file;      /* of TCP callers; NULL: none is asked for */
    char *tls_certificate; /* PEM files of both ports; NULL: plain text … */
    char *tls_key;
    char *tls_client_authority; /* … NULL: clients need no certificate */
    char *tls_clients;          /* names that one must have; NULL: any */
    char *sandbox;              /* target of sandboxd */
    char *sandbox_authority;    /* PEM file: sandboxd is spoken to by TLS; NULL: plain text … */
    char *sandbox_certificate;  /* … with this one of our own; NULL: none */
    char *sandbox_key;
    char *sandbox_name;       /* that its certificate has; NULL: the host of the target */
    char *sandbox_token_file; /* NULL: none */
    char *provider;           /* "gemini", "vertex" or "openai" */
    char *key_file;           /* NULL: none */
    char *file_key;           /* its first line; secret; wins over the keys below */
    char *api_key;            /* gemini and vertex: secret; NULL: none */
    char *model;              /* … default model */
    char *base_url;           /* … NULL: the public endpoint */
    char *vertex_project;     /* NULL: none, by key alone */
    char *vertex_location;
    char *openai_key;   /* openai: secret; NULL: none */
    char *openai_model; /* … default model; NULL: none */
    char *openai_base_url;
    char *receipt_key;            /* file with the key that signs receipts; NULL: none */
    char *model_file;             /* prices and parameters of models; NULL: none */
    struct agt_catalog *catalog;  /* what it says; NULL: nothing */
    char *ca_file;                /* NULL: the system's */
    uint64_t user;                /* uid to become when started as root; 0: stay */
    uint64_t max_runs;            /* live runs … */
    uint64_t caller_runs;         /* … of one caller; 0: no limit of its own */
    uint64_t caller_rate;         /* runs that one may begin in a minute; 0: no limit */
    uint64_t model_requests;      /* to the provider at one time */
    uint64_t run_time_s;          /* wall clock of a run */
    uint64_t stall_same_code;     /* as often attempts may be the same … */
    uint64_t stall_same_failure;  /* … or fail in the same way */
    char *store;                  /* "none", "sqlite:/path" or "postgresql://…" */
    uint64_t lease_ms;            /* of a run in PostgreSQL */
    uint64_t store_free_mib;      /* room on its disk, to take new runs */
    uint64_t keep_runs;           /* ended runs kept … */
    uint64_t keep_mib;            /* … of so many MiB of events … */
    uint64_t keep_s;              /* … for so long */
    uint64_t drain_delay_ms;      /* at the end, before anything is refused */
    uint64_t grace_ms;            /* for live runs at the end */
    struct cr_edge_settings edge; /* what gRPC callers may do, as written … */
    struct cr_edge limits;        /* … and as numbers */
    bool must_check_config;       /* print the settings and end */
    bool must_check;              /* ask the model once and end */
    char *otlp_endpoint;          /* of the collector of spans; NULL: none */
    char *otlp_headers;           /* secret; NULL: none */
    char *otlp_service;
    char *log_level;
    char *log_format;
};

/* Returns as cr_config_load(). */
int agt_config_load(int argc, char **argv, struct agt_config *config, struct cr_err *err);

/* Where the provider's server is; NULL: its public endpoint. */
const char *agt_config_model_url(const struct agt_config *config);

/* The store is a PostgreSQL database. */
bool agt_config_is_postgres(const char *store);

/* Frees everything; the key is wiped. */
void agt_config_done(struct agt_config *config);

/* Logs every setting at info, the key masked. */
void agt_config_log(const struct agt_config *config);
