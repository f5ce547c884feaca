/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/model/key.h"

#include "common/clock.h"
#include "common/config.h"
#include "common/err.h"
#include "common/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>

#define LOOK_EVERY_NS CR_NS_PER_S
/* A shorter "key" is no secret, and would blot out ordinary words. */
static const size_t MIN_SECRET = 8;

static void wipe_free(char *secret)
{
    if (secret)
        explicit_bzero(secret, strlen(secret));
    free(secret);
}

struct agt_key *agt_key_ref(struct agt_key *key)
{
    (void)atomic_fetch_add(&key->refs, 1);
    return key;
}

struct agt_key *agt_key_unref(struct agt_key *key)
{
    if (!key || atomic_fetch_sub(&key->refs, 1) != 1)
        return NULL;
    wipe_free(key->text);
    wipe_free(key->header);
    free(key);
    return NULL;
}

/* A text that was cut may end in the beginning of the key. */
static void redact_end(const char *text, size_t length, char *data, size_t size)
{
    size_t part = length - 1 < size ? length - 1 : size;

    while (part >= MIN_SECRET && memcmp(data + size - part, text, part) != 0)
        part--;
    if (part >= MIN_SECRET)
        memset(data + size - part, '*', part);
}

void agt_key_redact(const struct agt_key *key, char *data, size_t size)
{
    size_t length = key->text ? strlen(key->text) : 0;
    char *found;

    if (length < MIN_SECRET || size < MIN_SECRET)
        return;
    while ((found = memmem(data, size, key->text, length))) {
        memset(found, '*', length);
        size -= (size_t)(found - data) + length;
        data = found + length; /* the key itself may consist of stars */
    }
    redact_end(key->text, length, data, size);
}

/* Not by asprintf: it works in a buffer of its own and gives that back with the key in it. */
static char *make_header(const char *prefix, const char *text)
{
    size_t room = strlen(prefix) + strlen(text) + 1;
    char *header = malloc(room);

    if (header)
        (void)snprintf(header, room, "%s%s", prefix, text);
    return header;
}

/* A line break in the key would add a header of its own. */
static int check_text(const struct agt_keyring *ring, const char *text, struct cr_err *err)
{
    for (const char *at = text; *at; at++) {
        if (*at <= ' ' || *at > '~')
            return cr_err_set(err, EINVAL, "%s has a blank or an unprintable character in it",
                              ring->name);
    }
    return 0;
}

/* `text` may be NULL. */
static int make_key(const struct agt_keyring *ring, const char *text, struct agt_key **ret_key,
                    struct cr_err *err)
{
    struct agt_key *key;
    int r = text ? check_text(ring, text, err) : 0;

    if (r < 0)
        return r;
    key = calloc(1, sizeof(*key));
    if (!key)
        return cr_err_set(err, ENOMEM, "out of memory for the model's key");
    atomic_init(&key->refs, 1);
    key->headers[0] = "Content-Type: application/json";
    key->headers[1] = "Accept: text/event-stream";
    key->headers[2] = "User-Agent: crisol/" CR_VERSION;
    if (text) {
        key->text = strdup(text);
        key->header = make_header(ring->prefix, text);
        key->headers[3] = key->header; /* else NULL, the end */
        if (!key->text || !key->header) {
            (void)agt_key_unref(key);
            return cr_err_set(err, ENOMEM, "out of memory for the model's key");
        }
    }
    *ret_key = key;
    return 0;
}

int agt_keyring_init(struct agt_keyring *ring, const char *text, const char *path,
                     struct cr_err *err)
{
    (void)pthread_mutex_init(&ring->lock, NULL); /* cannot fail with default attributes */
    ring->has_key = text != NULL;
    if (path) {
        ring->path = strdup(path);
        if (!ring->path)
            return cr_err_set(err, ENOMEM, "out of memory for the model's key");
    }
    return make_key(ring, text, &ring->current, err);
}

void agt_keyring_done(struct agt_keyring *ring)
{
    ring->current = agt_key_unref(ring->current);
    free(ring->path);
    ring->path = NULL;
    (void)pthread_mutex_destroy(&ring->lock);
}

/* With the lock. False when the file is the one that was read, or cannot be looked at. */
static bool has_changed(struct agt_keyring *ring)
{
    struct stat file;
    bool is_same;

    if (stat(ring->path, &file) < 0)
        return false;
    is_same = ring->is_known && file.st_ino == ring->inode && file.st_size == ring->size &&
              file.st_mtim.tv_sec == ring->modified.tv_sec &&
              file.st_mtim.tv_nsec == ring->modified.tv_nsec;
    ring->is_known = true;
    ring->inode = file.st_ino;
    ring->size = file.st_size;
    ring->modified = file.st_mtim;
    return !is_same;
}

/* Says so once: a file that root alone may read is read at the start, and never again. */
static void complain(struct agt_keyring *ring, const struct cr_err *err)
{
    if (!ring->has_complained)
        cr_log_warn("the model's key cannot be read again (%s), keeping the one before", err->text);
    ring->has_complained = true;
}

/* With the lock. */
static void read_again(struct agt_keyring *ring)
{
    struct cr_err err = CR_ERR_INIT;
    struct agt_key *key = NULL;
    char *text = NULL;
    int r = cr_config_read_secret(ring->path, &text, &err);

    if (r == 0 && strcmp(text, ring->current->text ? ring->current->text : "") != 0)
        r = make_key(ring, text, &key, &err);
    wipe_free(text);
    if (r < 0)
        complain(ring, &err);
    else
        ring->has_complained = false;
    if (!key)
        return;
    (void)agt_key_unref(ring->current);
    ring->current = key;
    cr_log_info("the model's key has changed");
}

struct agt_key *agt_keyring_get(struct agt_keyring *ring)
{
    int64_t now_ns = cr_clock_mono_ns();
    struct agt_key *key;

    (void)pthread_mutex_lock(&ring->lock);
    if (ring->path && (ring->looked_ns == 0 || now_ns - ring->looked_ns >= LOOK_EVERY_NS)) {
        ring->looked_ns = now_ns;
        if (has_changed(ring))
            read_again(ring);
    }
    key = agt_key_ref(ring->current);
    (void)pthread_mutex_unlock(&ring->lock);
    return key;
}
