/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"
#include "common/log.h"
#include "orchestrator/model/key.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

struct fixture {
    char path[64];
    struct agt_keyring ring;
};

static void write_file(const struct fixture *fixture, const char *text)
{
    char next[80];
    FILE *file;

    /* As whoever renews a token does: another file takes the name. */
    (void)snprintf(next, sizeof(next), "%s.next", fixture->path);
    file = fopen(next, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rename(next, fixture->path), 0);
}

/* A second has passed, as far as the ring can tell. */
static const char *header_now(struct fixture *fixture, struct agt_key **ret_key)
{
    fixture->ring.looked_ns = 0;
    *ret_key = agt_keyring_get(&fixture->ring);
    return (*ret_key)->headers[3];
}

static int set_up(void **state)
{
    static struct fixture fixture;

    cr_log_setup("test", CR_LOG_ERROR, CR_LOG_TEXT);
    fixture = (struct fixture){.path = ""};
    (void)close(test_file_make(fixture.path, sizeof(fixture.path)));
    fixture.ring = (struct agt_keyring){.name = "KEY", .prefix = "Authorization: Bearer "};
    write_file(&fixture, "token-one\nignored\n");
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    agt_keyring_done(&fixture->ring);
    (void)unlink(fixture->path);
    return 0;
}

static void a_token_that_is_renewed_is_used(void **state)
{
    struct fixture *fixture = *state;
    struct agt_key *before;
    struct agt_key *after;
    struct agt_key *again;

    assert_int_equal(agt_keyring_init(&fixture->ring, "token-one", fixture->path, NULL), 0);
    assert_string_equal(header_now(fixture, &before), "Authorization: Bearer token-one");
    write_file(fixture, "  \n"); /* half written */
    assert_string_equal(header_now(fixture, &after), "Authorization: Bearer token-one");
    assert_ptr_equal(before, after);
    (void)agt_key_unref(after);
    write_file(fixture, "token-two\n");
    assert_string_equal(header_now(fixture, &after), "Authorization: Bearer token-two");
    /* Who has the one before keeps it to the end. */
    assert_string_equal(before->headers[3], "Authorization: Bearer token-one");
    assert_string_equal(header_now(fixture, &again), "Authorization: Bearer token-two");
    assert_ptr_equal(after, again);
    (void)agt_key_unref(before);
    (void)agt_key_unref(after);
    (void)agt_key_unref(again);
}

static void a_file_is_not_looked_at_all_the_time(void **state)
{
    struct fixture *fixture = *state;
    struct agt_key *key;

    assert_int_equal(agt_keyring_init(&fixture->ring, "token-one", fixture->path, NULL), 0);
    (void)header_now(fixture, &key);
    (void)agt_key_unref(key);
    write_file(fixture, "token-two\n");
    key = agt_keyring_get(&fixture->ring);
    assert_string_equal(key->headers[3], "Authorization: Bearer token-one");
    (void)agt_key_unref(key);
}

static void what_can_no_longer_be_read_is_kept(void **state)
{
    struct fixture *fixture = *state;
    struct agt_key *key;

    assert_int_equal(agt_keyring_init(&fixture->ring, "token-one", fixture->path, NULL), 0);
    assert_int_equal(unlink(fixture->path), 0);
    assert_string_equal(header_now(fixture, &key), "Authorization: Bearer token-one");
    (void)agt_key_unref(key);
    write_file(fixture, "a b\n"); /* the first word is the key; the rest is none of it */
    assert_string_equal(header_now(fixture, &key), "Authorization: Bearer a");
    (void)agt_key_unref(key);
    write_file(fixture, "evil\x01header\n");
    assert_string_equal(header_now(fixture, &key), "Authorization: Bearer a");
    (void)agt_key_unref(key);
}

static void without_a_key_there_is_no_header(void **state)
{
    struct fixture *fixture = *state;
    struct agt_key *key;

    assert_int_equal(agt_keyring_init(&fixture->ring, NULL, NULL, NULL), 0);
    assert_false(fixture->ring.has_key);
    assert_null(header_now(fixture, &key));
    (void)agt_key_unref(key);
}

static void a_key_is_blotted_out(void **state)
{
    struct fixture *fixture = *state;
    char text[] = "x token-one y token-one";
    struct agt_key *key;

    assert_int_equal(agt_keyring_init(&fixture->ring, "token-one", NULL, NULL), 0);
    key = agt_keyring_get(&fixture->ring);
    agt_key_redact(key, text, strlen(text));
    assert_string_equal(text, "x ********* y *********");
    (void)agt_key_unref(key);
}

static void a_key_that_was_cut_is_blotted_out(void **state)
{
    struct fixture *fixture = *state;
    char text[] = "token-one token-on";
    char other[] = "token-o";
    struct agt_key *key;

    assert_int_equal(agt_keyring_init(&fixture->ring, "token-one", NULL, NULL), 0);
    key = agt_keyring_get(&fixture->ring);
    agt_key_redact(key, text, strlen(text));
    assert_string_equal(text, "********* ********");
    agt_key_redact(key, other, strlen(other));
    assert_string_equal(other, "token-o"); /* too short to be a secret */
    (void)agt_key_unref(key);
}

static void a_key_of_stars_is_passed_over(void **state)
{
    struct fixture *fixture = *state;
    char text[] = "x ********* y *********";
    struct agt_key *key;

    assert_int_equal(agt_keyring_init(&fixture->ring, "*********", NULL, NULL), 0);
    key = agt_keyring_get(&fixture->ring);
    agt_key_redact(key, text, strlen(text));
    assert_string_equal(text, "x ********* y *********");
    (void)agt_key_unref(key);
}

static void an_unprintable_key_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct cr_err err = CR_ERR_INIT;

    assert_int_equal(agt_keyring_init(&fixture->ring, "a\r\nX: y", NULL, &err), -EINVAL);
    assert_non_null(strstr(err.text, "KEY has a blank"));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_token_that_is_renewed_is_used),
        CASE(a_file_is_not_looked_at_all_the_time),
        CASE(what_can_no_longer_be_read_is_kept),
        CASE(without_a_key_there_is_no_header),
        CASE(a_key_is_blotted_out),
        CASE(a_key_of_stars_is_passed_over),
        CASE(a_key_that_was_cut_is_blotted_out),
        CASE(an_unprintable_key_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
