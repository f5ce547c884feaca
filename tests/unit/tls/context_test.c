/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "tests/harness/certificates.h"
#include "tests/harness/test.h"
#include "tls/context.h"
#include "tls/names.h"
#include "tls/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct tls_context_options h2 = {.protocol = "h2", .requires_protocol = true};
static const struct test_certificate plain = {.names = "DNS:server.example"};

struct bench {
    struct test_authority authority;
    struct tls_context *context;
    struct cr_tls_material material;
    char before[TLS_SUMMARY_MAX];
};

static void set_up(struct bench *bench)
{
    test_authority_init(&bench->authority);
    assert_int_equal(tls_context_new(&h2, &bench->context, NULL), 0);
    bench->material = test_material(&bench->authority, &plain, &bench->authority);
    assert_int_equal(tls_context_load(bench->context, &bench->material, NULL), 0);
    tls_context_describe(bench->context, bench->before);
}

static void tear_down(struct bench *bench)
{
    bench->context = tls_context_free(bench->context);
    cr_tls_material_done(&bench->material);
    test_authority_done(&bench->authority);
}

/* What is refused leaves what was there. */
static void expect_refusal(struct bench *bench, const struct cr_tls_material *material,
                           const char *words)
{
    struct cr_err err = CR_ERR_INIT;
    char after[TLS_SUMMARY_MAX];

    assert_int_equal(tls_context_load(bench->context, material, &err), -EINVAL);
    assert_non_null(strstr(err.text, words));
    tls_context_describe(bench->context, after);
    assert_string_equal(after, bench->before);
}

static void swap_part(struct cr_tls_material *material, enum cr_tls_part part, const char *text)
{
    free(material->part[part]);
    material->part[part] = text ? strdup(text) : NULL;
}

static void context_takes_another_certificate(void **state)
{
    struct cr_tls_material next;
    char after[TLS_SUMMARY_MAX];
    struct bench bench;

    (void)state;
    set_up(&bench);
    assert_non_null(strstr(bench.before, "client_certificates=required"));
    next = test_material(&bench.authority, &plain, &bench.authority);

    assert_int_equal(tls_context_load(bench.context, &next, NULL), 0);

    tls_context_describe(bench.context, after);
    assert_string_not_equal(after, bench.before);
    cr_tls_material_done(&next);
    tear_down(&bench);
}

static void context_refuses_a_mixed_pair(void **state)
{
    struct cr_tls_material next;
    struct bench bench;

    (void)state;
    set_up(&bench);
    next = test_material(&bench.authority, &plain, &bench.authority);
    swap_part(&next, CR_TLS_KEY, bench.material.part[CR_TLS_KEY]);
    expect_refusal(&bench, &next, "does not belong");
    assert_int_equal(tls_pair_check(&next, NULL), -EINVAL);
    cr_tls_material_done(&next);
    tear_down(&bench);
}

static void context_refuses_an_expired_certificate(void **state)
{
    const struct test_certificate old = {.begins_s = -7200, .ends_s = -3600};
    struct cr_tls_material next;
    struct bench bench;

    (void)state;
    set_up(&bench);
    next = test_material(&bench.authority, &old, &bench.authority);
    expect_refusal(&bench, &next, "expired");
    cr_tls_material_done(&next);
    tear_down(&bench);
}

static void context_refuses_half_a_file_and_none(void **state)
{
    struct cr_tls_material next;
    struct bench bench;

    (void)state;
    set_up(&bench);
    next = test_material(&bench.authority, &plain, &bench.authority);
    next.part[CR_TLS_KEY][strlen(next.part[CR_TLS_KEY]) / 2] = '\0';
    expect_refusal(&bench, &next, "key cannot be read");
    swap_part(&next, CR_TLS_CERTIFICATE, "-----BEGIN CERTIFICATE-----\nAAAA\n");
    expect_refusal(&bench, &next, "certificate cannot be used");
    swap_part(&next, CR_TLS_CERTIFICATE, NULL);
    expect_refusal(&bench, &next, "empty");
    cr_tls_material_done(&next);
    tear_down(&bench);
}

/* Else a file that is empty for a moment would let everybody in. */
static void context_refuses_to_lose_its_authority(void **state)
{
    struct cr_tls_material next;
    struct bench bench;

    (void)state;
    set_up(&bench);
    next = test_material(&bench.authority, &plain, NULL);
    expect_refusal(&bench, &next, "authority of clients is empty");
    swap_part(&next, CR_TLS_AUTHORITY, "no PEM at all");
    expect_refusal(&bench, &next, "authority of clients cannot be read");
    cr_tls_material_done(&next);
    tear_down(&bench);
}

static void names_are_listed_whole(void **state)
{
    (void)state;
    assert_true(tls_names_is_listed(NULL, "a", 1, true));
    assert_true(tls_names_is_listed("", "a", 1, true));
    assert_true(tls_names_is_listed("b.example,a.example", "A.example", 9, true));
    assert_false(tls_names_is_listed("b.example,a.example", "a.exampl", 8, true));
    assert_false(tls_names_is_listed("b.example,a.example", "a.example.org", 13, true));
    assert_false(tls_names_is_listed("*.example", "a.example", 9, true));
    assert_true(tls_names_is_listed("spiffe://x/y", "spiffe://x/y", 12, false));
    assert_false(tls_names_is_listed("spiffe://x/y", "spiffe://x/Y", 12, false));
}

static void callers_are_told_apart_when_their_names_are_cut(void **state)
{
    char text[200] = {0};
    char one[64];
    char other[64];

    (void)state;
    tls_stream_caller("agent.example", one, sizeof(one));
    assert_string_equal(one, "san:agent.example");
    memset(text, 'a', 150);
    tls_stream_caller(text, one, sizeof(one));
    text[149] = 'b';
    tls_stream_caller(text, other, sizeof(other));
    assert_string_not_equal(one, other);
    assert_memory_equal(one, other, 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(context_takes_another_certificate),
        cmocka_unit_test(context_refuses_a_mixed_pair),
        cmocka_unit_test(context_refuses_an_expired_certificate),
        cmocka_unit_test(context_refuses_half_a_file_and_none),
        cmocka_unit_test(context_refuses_to_lose_its_authority),
        cmocka_unit_test(names_are_listed_whole),
        cmocka_unit_test(callers_are_told_apart_when_their_names_are_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
