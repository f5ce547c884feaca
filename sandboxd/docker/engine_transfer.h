/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/buf.h"
#include "sandboxd/docker/engine.h"

#include <stdbool.h>
#include <stdint.h>

#include <curl/curl.h>

struct sbx_engine_address;

#define SBX_ENGINE_TEXT_MAX 400
#define SBX_ENGINE_ANSWER_MAX (4U << 20)

/*
 * One call of the Engine API as libcurl's: its request, what has come of the
 * answer, and what a failure means. engine.c has it performed and owns it.
 */
struct sbx_engine_transfer {
    struct sbx_engine_transfer *next; /* of a list of engine.c */
    CURL *easy;
    struct curl_slist *headers;
    struct cr_buf answer;
    sbx_engine_on_answer on_answer; /* of a call that is not waited for, with the next two */
    void *user;
    uint64_t tag;
    int deadline_ms;
    int64_t deadline_ns; /* of a streamed body */
    int body_fd;
    char name[96]; /* for texts: method and the beginning of the path */
};

/* Ready to be performed. Returns 0, -ENOMEM, or -ENAMETOOLONG for its path. */
int sbx_engine_transfer_new(const struct sbx_engine_address *address, const char *version,
                            const struct sbx_engine_request *request,
                            struct sbx_engine_transfer **ret_transfer);
void sbx_engine_transfer_free(struct sbx_engine_transfer *transfer);

/* The errno and the text of a failure; *ret_is_gone when it is the engine and not this call. */
int sbx_engine_transfer_explain(const struct sbx_engine_transfer *transfer,
                                const struct sbx_engine_address *address, CURLcode code,
                                char text[SBX_ENGINE_TEXT_MAX], bool *ret_is_gone);
