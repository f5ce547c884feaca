/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <sys/types.h>

struct cr_err;

/* The headers of a request, its key among them. Immutable, reference-counted; wiped at its end. */
struct agt_key {
    atomic_uint refs;
    char *text;             /* owned; NULL: none */
    char *header;           /* owned; likewise */
    const char *headers[5]; /* as struct agt_http_spec wants them */
};

struct agt_key *agt_key_ref(struct agt_key *key);
struct agt_key *agt_key_unref(struct agt_key *key); /* NULL is allowed; returns NULL */

/* Blots out the key: a server may send it back, in an error above all; it must go no further. */
void agt_key_redact(const struct agt_key *key, char *data, size_t size);

/*
 * The key that is in force. One that comes from a file is read again when the
 * file has changed, as tokens that run out are replaced: looked at once a
 * second at most, when it is needed. A file that cannot be read then, or holds
 * no key, leaves the one before. Embedded in its owner; any thread.
 */
struct agt_keyring {
    const char *name;   /* of the setting, for errors. Static */
    const char *prefix; /* of the header: "x-goog-api-key: ". Static */
    char *path;         /* owned; NULL: no file */
    bool has_key;       /* constant */

    pthread_mutex_t lock; /* guards all below */
    struct agt_key *current;
    int64_t looked_ns;
    bool is_known; /* the next three are those of the file that was read */
    ino_t inode;
    off_t size;
    struct timespec modified;
    bool has_complained;
};

/* `text` (NULL: no key) and `path` (NULL: no file) are copied. Returns 0, -EINVAL or -ENOMEM; after
 * either agt_keyring_done() may be called. */
int agt_keyring_init(struct agt_keyring *ring, const char *text, const char *path,
                     struct cr_err *err);
void agt_keyring_done(struct agt_keyring *ring);

/* A reference; never NULL. May read the file. */
struct agt_key *agt_keyring_get(struct agt_keyring *ring);
