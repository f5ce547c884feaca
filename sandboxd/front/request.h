/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "crisol/sandbox/v1/sandbox.pb-c.h"
#include "sandboxd/wire/msg.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rpc_status;
struct sbx_runtime;

#define SBX_REQUEST_ID_MAX 64U
#define SBX_ARGS_MAX 1024U
#define SBX_ARG_BYTES_MAX (128U << 10) /* MAX_ARG_STRLEN of the kernel, the NUL included */
#define SBX_ARGV_BYTES_MAX (1U << 20)  /* of argv and environment together */
#define SBX_FILES_MAX 1024U
#define SBX_ENV_MAX 256U
#define SBX_COLLECT_MAX 64U
#define SBX_COLLECT_BYTES_MAX (1U << 20)
#define SBX_COLLECT_FILES_MAX 1024U /* of all patterns together */
#define SBX_COLLECT_FILES_DEFAULT 64U

/*
 * Where contents come from that a request only names by their digest: what the
 * caller has stored. NULL data: there is no such one.
 */
struct sbx_contents {
    ProtobufCBinaryData (*find)(void *user, const char *digest);
    void *user;
};

/* Who may ask for what; the same for every request of one backend connection. */
struct sbx_request_rules {
    struct sbx_limits maximum; /* of the operator, from HELLO */
    uint32_t runtimes;         /* bit i: runtime i is offered on this host */
    Crisol__Sandbox__V1__Backend backend;
    bool can_resume; /* `resume` may be set */
    /* Files in and out of a sandbox: there is no program to ask for, and what is collected is named
     * as ReadFiles does, `files`. */
    bool is_files_only;
    const struct sbx_contents *contents; /* borrowed; NULL: nothing is stored */
};

/* Which run of a call it is. */
enum sbx_phase {
    SBX_PHASE_ONLY,    /* the program of a runtime without a compile stage, or a command */
    SBX_PHASE_COMPILE, /* the compile stage */
    SBX_PHASE_RUN,     /* the program that a compile stage made, now or earlier */
};

/*
 * The decisions taken while a request was checked. What is only passed on
 * (argv, files, environment) stays in the message.
 */
struct sbx_request {
    uint32_t runtime; /* index into the runtime table */
    struct sbx_limits limits;
    uint32_t flags;                                  /* SBX_RUN_HAS_… of the wire */
    uint32_t requested;                              /* bit per limit that came from the request */
    Crisol__Sandbox__V1__OverflowPolicy on_overflow; /* never UNSPECIFIED */
    bool as_text;
    enum sbx_phase phase;                /* ONLY, or RUN */
    bool has_compile;                    /* a compile stage comes first */
    struct sbx_limits compile_limits;    /* of it */
    uint32_t compile_requested;          /* as `requested` */
    const struct sbx_contents *contents; /* borrowed: until its payload is built */
    uint64_t session;                    /* number of the sandbox on the wire; 0: none */
    uint16_t columns;                    /* of its terminal; 0: it has none */
    uint16_t rows;
    uint32_t grace_ms;   /* of `resume`: how long it goes on without its stream */
    uint32_t ring_bytes; /* of each stream that are kept; 0: it ends with its stream */
    bool is_interactive; /* standard input and signals come while it runs */
};

/* What the compile stage of a request that has one is: a request of its own. */
struct sbx_request sbx_request_compile(const struct sbx_request *request);

/*
 * Checks every rule that sandbox.proto documents. Pure. On failure returns
 * -EINVAL and fills in `status`: INVALID_ARGUMENT with all violations,
 * NOT_FOUND for a runtime that is not known, UNIMPLEMENTED for a control that
 * does not exist here.
 */
int sbx_request_check(const Crisol__Sandbox__V1__ExecuteRequest *message,
                      const struct sbx_request_rules *rules, struct sbx_request *ret_request,
                      struct rpc_status *status);

/* Finds a runtime of this host by its name. Returns 0, or -EINVAL with `status` filled in. */
int sbx_request_find_runtime(const char *name, const struct sbx_request_rules *rules,
                             uint32_t *ret_runtime, struct rpc_status *status);

/* For a request that is part of another message: puts its name before the fields that were named.
 */
void sbx_request_name_part(struct rpc_status *status, const char *part);

/* What `request_id` may be; "" is valid. Pure. */
bool sbx_request_id_is_valid(const char *id);

/* The row of the runtime table. Borrowed, static. */
const struct sbx_runtime *sbx_request_runtime(const struct sbx_request *request);

/* True when the program's report is to be collected: the runtime has one and runs its own argv. */
bool sbx_request_wants_report(const Crisol__Sandbox__V1__ExecuteRequest *message,
                              const struct sbx_request *request);

/* Largest size of a collected file, the default applied. */
uint32_t sbx_collect_max_bytes(const Crisol__Sandbox__V1__CollectSpec *spec);

/* Most files of a pattern, the default applied; 0 for a path. */
uint32_t sbx_collect_max_files(const Crisol__Sandbox__V1__CollectSpec *spec);

/* The path or the pattern. Borrowed. */
const char *sbx_collect_name(const Crisol__Sandbox__V1__CollectSpec *spec);

/* Standard input of the request, from either field. Borrowed. */
ProtobufCBinaryData sbx_request_stdin(const Crisol__Sandbox__V1__ExecuteRequest *message);

/* Content of a file, from whichever field. Borrowed. */
ProtobufCBinaryData sbx_file_content(const struct sbx_contents *contents,
                                     const Crisol__Sandbox__V1__InputFile *file);

/* What an earlier compile stage made, as sbx_compiled_check() wants it. Borrowed; NULL data: none.
 */
ProtobufCBinaryData sbx_request_compiled(const struct sbx_contents *contents,
                                         const Crisol__Sandbox__V1__ExecuteRequest *message);

/* Most files that one entry of compile.output stands for. */
uint32_t sbx_compile_max_files(const struct sbx_runtime *runtime);
