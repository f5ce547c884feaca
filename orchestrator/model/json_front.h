/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cJSON;
struct cr_err;

/*
 * A guard in front of cJSON for JSON that comes from outside. cJSON cuts
 * strings at an escaped NUL, refuses lone surrogates, lets ill-formed UTF-8
 * through and allocates without bound; the guard reads the bytes first,
 * repairs what can be repaired and says so, and refuses the rest.
 *
 * Duplicate keys are tolerated: read members with
 * cJSON_GetObjectItemCaseSensitive(), which takes the first.
 */
enum agt_json_flag {
    AGT_JSON_REPLACED_NUL = 1 << 0,       /* an escaped or raw NUL became U+FFFD */
    AGT_JSON_REPLACED_SURROGATE = 1 << 1, /* half a surrogate pair; see keep_surrogates */
    AGT_JSON_REPLACED_UTF8 = 1 << 2,      /* ill-formed bytes became U+FFFD */
    AGT_JSON_RAW_CONTROL = 1 << 3,        /* control characters in a string, kept as they are */
    AGT_JSON_TRAILING = 1 << 4,           /* something follows the document */
};

struct agt_json_options {
    size_t max_size;     /* bytes of text; 0: 8 MiB */
    uint32_t max_depth;  /* 0: 64 */
    uint32_t max_values; /* bounds the memory of the tree; 0: 100,000 */
    bool allow_trailing; /* read the first document only */
    /*
     * Half a surrogate pair is written as the three bytes that its code point would have in UTF-8
     * (WTF-8), so that the other half may be found in the next string. Such a string is not UTF-8
     * yet; agt_json_join_add() makes it so.
     */
    bool keep_surrogates;
};

/*
 * Parses one object or array. NULL options: the defaults. *ret_flags gets the
 * AGT_JSON_* flags and may be NULL. The tree is freed with cJSON_Delete().
 * Returns 0, -EBADMSG when it is not JSON, -ENODATA when it ends too early,
 * -EMSGSIZE when a limit is passed, -ENOMEM.
 */
int agt_json_parse(const void *data, size_t size, const struct agt_json_options *options,
                   struct cJSON **ret_root, uint32_t *ret_flags, struct cr_err *err);

struct cr_buf;

/*
 * Joins strings that were read with keep_surrogates: a pair that was split
 * between two strings becomes its character, any other half becomes U+FFFD.
 */
struct agt_json_join {
    uint32_t high; /* half a pair that waits for the other; 0: none */
};

/* Appends `text` to `buf`. Returns as cr_buf_add(). */
int agt_json_join_add(struct agt_json_join *join, struct cr_buf *buf, const char *text,
                      size_t size);

/* Nothing follows: a half that waits becomes U+FFFD. Returns as cr_buf_add(). */
int agt_json_join_end(struct agt_json_join *join, struct cr_buf *buf);
