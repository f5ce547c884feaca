/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/harness/certificates.h"

#include "common/auto.h"
#include "common/unconst.h"
#include "tests/harness/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <sys/stat.h>

static char *take_text(BIO *bio)
{
    char *data = NULL;
    long size = BIO_get_mem_data(bio, &data);
    char *text = strndup(data, (size_t)size);

    assert_non_null(text);
    BIO_free(bio);
    return text;
}

static char *certificate_text(X509 *certificate)
{
    BIO *bio = BIO_new(BIO_s_mem());

    assert_int_equal(PEM_write_bio_X509(bio, certificate), 1);
    return take_text(bio);
}

static char *key_text(EVP_PKEY *key)
{
    BIO *bio = BIO_new(BIO_s_mem());

    assert_int_equal(PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL), 1);
    return take_text(bio);
}

static void add_extension(X509 *certificate, int kind, const char *value)
{
    X509V3_CTX context;
    X509_EXTENSION *extension;

    X509V3_set_ctx(&context, certificate, certificate, NULL, NULL, 0);
    extension = X509V3_EXT_conf_nid(NULL, &context, kind, cr_unconst(value));
    assert_non_null(extension);
    assert_int_equal(X509_add_ext(certificate, extension, -1), 1);
    X509_EXTENSION_free(extension);
}

static X509 *begin_certificate(EVP_PKEY *key, const char *subject, int begins_s, int ends_s)
{
    static long serial = 1000;
    X509 *certificate = X509_new();

    assert_non_null(certificate);
    assert_int_equal(X509_set_version(certificate, 2), 1);
    assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial), 1);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(certificate), begins_s));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(certificate), ends_s));
    assert_int_equal(X509_set_pubkey(certificate, key), 1);
    assert_int_equal(X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN",
                                                MBSTRING_ASC, (const unsigned char *)subject, -1,
                                                -1, 0),
                     1);
    return certificate;
}

void test_authority_init(struct test_authority *authority)
{
    X509 *certificate;

    authority->key = EVP_EC_gen("P-256");
    assert_non_null(authority->key);
    certificate = begin_certificate(authority->key, "an authority", -86400, 86400);
    assert_int_equal(X509_set_issuer_name(certificate, X509_get_subject_name(certificate)), 1);
    add_extension(certificate, NID_basic_constraints, "critical,CA:TRUE");
    add_extension(certificate, NID_subject_key_identifier, "hash");
    assert_true(X509_sign(certificate, authority->key, EVP_sha256()) > 0);
    authority->certificate = certificate;
    authority->pem = certificate_text(certificate);
}

void test_authority_done(struct test_authority *authority)
{
    EVP_PKEY_free(authority->key);
    X509_free(authority->certificate);
    free(authority->pem);
}

struct cr_tls_material test_material(const struct test_authority *signer,
                                     const struct test_certificate *what,
                                     const struct test_authority *trusted)
{
    struct cr_tls_material material = {{NULL}};
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = begin_certificate(key, "somebody", what->begins_s ? what->begins_s : -60,
                                          what->ends_s ? what->ends_s : 3600);

    assert_int_equal(X509_set_issuer_name(certificate, X509_get_subject_name(signer->certificate)),
                     1);
    if (what->names)
        add_extension(certificate, NID_subject_alt_name, what->names);
    add_extension(certificate, NID_ext_key_usage,
                  what->usage ? what->usage : "serverAuth,clientAuth");
    assert_true(X509_sign(certificate, signer->key, EVP_sha256()) > 0);
    material.part[CR_TLS_CERTIFICATE] = certificate_text(certificate);
    material.part[CR_TLS_KEY] = key_text(key);
    if (trusted)
        material.part[CR_TLS_AUTHORITY] = strdup(trusted->pem);
    X509_free(certificate);
    EVP_PKEY_free(key);
    return material;
}

void test_write_file(const char *folder, const char *name, const char *text)
{
    char path[256];
    CR_AUTO_CLOSE int fd = -1;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}
