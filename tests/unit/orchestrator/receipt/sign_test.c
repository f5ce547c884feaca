/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "common/unconst.h"
#include "orchestrator/receipt/sign.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

/* The first key of RFC 8032, section 7.1, and another one; made for tests. */
static const char private_key[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n"
    "-----END PRIVATE KEY-----\n";
static const char public_key[] = "-----BEGIN PUBLIC KEY-----\n"
                                 "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n"
                                 "-----END PUBLIC KEY-----\n";
static const char other_public_key[] =
    "-----BEGIN PUBLIC KEY-----\n"
    "MCowBQYDK2VwAyEAPUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=\n"
    "-----END PUBLIC KEY-----\n";

static char folder[TEST_PATH_SIZE];
static char path[64];

static int start(void **state)
{
    (void)state;
    test_folder_make(folder, sizeof(folder));
    (void)snprintf(path, sizeof(path), "%s/key", folder);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    (void)unlink(path);
    return rmdir(folder);
}

static void write_key(const char *text, mode_t mode)
{
    CR_AUTO_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
}

static struct agt_signer *load(void)
{
    struct agt_signer *signer = NULL;
    struct cr_err err = CR_ERR_INIT;

    write_key(private_key, 0600);
    if (agt_signer_load(path, &signer, &err) < 0)
        fail_msg("%s", err.text);
    return signer;
}

static char head[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

static void sign(Crisol__Agent__V1__Receipt *receipt)
{
    struct agt_signer *signer = load();

    crisol__agent__v1__receipt__init(receipt);
    receipt->head = head;
    assert_int_equal(agt_receipt_sign(signer, receipt), 0);
    (void)agt_signer_free(signer);
}

static int check(const Crisol__Agent__V1__Receipt *receipt, const char *key, struct cr_err *err)
{
    *err = (struct cr_err)CR_ERR_INIT;
    write_key(key, 0644);
    return agt_receipt_check_signature(receipt, path, err);
}

static void a_signature_fits_its_key_and_head_alone(void **state)
{
    Crisol__Agent__V1__Receipt receipt;
    struct cr_err err;

    (void)state;
    sign(&receipt);
    assert_int_equal(receipt.signature.len, 64);
    assert_int_equal(check(&receipt, public_key, &err), 0);

    assert_int_equal(check(&receipt, other_public_key, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "another key"));
    receipt.signature.data[7] ^= 1;
    assert_int_equal(check(&receipt, public_key, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "does not fit"));
    receipt.signature.data[7] ^= 1;
    head[0] = 'f';
    assert_int_equal(check(&receipt, public_key, &err), -EBADMSG);
    head[0] = '0';
    assert_int_equal(check(&receipt, public_key, &err), 0);
    receipt.key_id[0] ^= 1; /* who signed is told by this name */
    assert_int_equal(check(&receipt, public_key, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "another key"));
    agt_receipt_drop_signature(&receipt);
    assert_int_equal(check(&receipt, public_key, &err), -EBADMSG);
    assert_non_null(strstr(err.text, "not signed"));
}

static void the_same_head_gives_the_same_signature(void **state)
{
    Crisol__Agent__V1__Receipt first;
    Crisol__Agent__V1__Receipt second;

    (void)state;
    sign(&first);
    sign(&second);
    assert_memory_equal(first.signature.data, second.signature.data, 64);
    assert_string_equal(first.key_id, second.key_id);
    assert_int_equal(strlen(first.key_id), 16);
    agt_receipt_drop_signature(&first);
    agt_receipt_drop_signature(&second);
}

static void what_is_no_private_key_is_refused(void **state)
{
    static const struct {
        const char *text;
        mode_t mode;
        int expected;
        const char *words;
    } cases[] = {
        {"", 0600, -EINVAL, "no private Ed25519 key"},
        {"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", 0600, -EINVAL,
         "no private Ed25519 key"},
        {public_key, 0600, -EINVAL, "no private Ed25519 key"},
        {private_key, 0640, -EACCES, "chmod 600"},
        {private_key, 0604, -EACCES, "chmod 600"},
    };

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(cases); i++) {
        struct agt_signer *signer = NULL;
        struct cr_err err = CR_ERR_INIT;

        write_key(cases[i].text, cases[i].mode);
        assert_int_equal(agt_signer_load(path, &signer, &err), cases[i].expected);
        assert_null(signer);
        assert_non_null(strstr(err.text, cases[i].words));
        assert_non_null(strstr(err.text, path));
    }
}

static void a_missing_key_is_named(void **state)
{
    struct agt_signer *signer = NULL;
    struct cr_err err = CR_ERR_INIT;

    (void)state;
    assert_int_equal(agt_signer_load("/nonexistent/key", &signer, &err), -ENOENT);
    assert_non_null(strstr(err.text, "'/nonexistent/key'"));
    assert_int_equal(agt_signer_load("/dev/null", &signer, &err), -EINVAL);
    assert_non_null(strstr(err.text, "no regular file"));
}

static void keys_leave_no_fd_behind(void **state)
{
    int before = test_count_fds();
    Crisol__Agent__V1__Receipt receipt;
    struct cr_err err;

    (void)state;
    sign(&receipt);
    (void)check(&receipt, public_key, &err);
    (void)check(&receipt, "", &err);
    agt_receipt_drop_signature(&receipt);
    assert_int_equal(test_count_fds(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signature_fits_its_key_and_head_alone),
        cmocka_unit_test(the_same_head_gives_the_same_signature),
        cmocka_unit_test(what_is_no_private_key_is_refused),
        cmocka_unit_test(a_missing_key_is_named),
        cmocka_unit_test(keys_leave_no_fd_behind),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
