/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/receipt/sign.h"

#include "common/auto.h"
#include "common/err.h"
#include "common/unconst.h"
#include "orchestrator/receipt/receipt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <sys/stat.h>

#define KEY_FILE_MAX 16384
#define PUBLIC_KEY_SIZE 32
/* Hexadecimal digits of a key's name: enough to tell the keys of one house apart. */
#define KEY_ID_SIZE 17
#define MESSAGE_SIZE 128

struct agt_signer {
    EVP_PKEY *key;
    char key_id[KEY_ID_SIZE];
};

/* ---- keys ---- */

static int check_owner(int fd, bool is_private, struct cr_err *err)
{
    struct stat file;

    if (fstat(fd, &file) < 0)
        return cr_err_sys(err, errno, "look at it");
    if (!S_ISREG(file.st_mode))
        return cr_err_set(err, EINVAL, "it is no regular file");
    if (is_private && (file.st_mode & (S_IRWXG | S_IRWXO)))
        return cr_err_set(err, EACCES, "others than its owner may use it: chmod 600");
    return 0;
}

/* A key file is small; whatever is longer is none. */
static int read_file(const char *path, bool is_private, char text[KEY_FILE_MAX], size_t *ret_size,
                     struct cr_err *err)
{
    CR_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    size_t size = 0;
    ssize_t n = 1;
    int r;

    if (fd < 0)
        return cr_err_sys(err, errno, "open it");
    r = check_owner(fd, is_private, err);
    while (r == 0 && n > 0 && size < KEY_FILE_MAX) {
        n = read(fd, text + size, KEY_FILE_MAX - size);
        if (n < 0 && errno != EINTR)
            r = cr_err_sys(err, errno, "read it");
        size += n > 0 ? (size_t)n : 0;
        n = n < 0 ? 1 : n;
    }
    *ret_size = size;
    return r;
}

/* Instead of a question on the terminal. */
/* NOLINTNEXTLINE(readability-non-const-parameter): the type is libcrypto's */
static int no_passphrase(char *buffer, int size, int is_writing, void *user)
{
    (void)buffer;
    (void)size;
    (void)is_writing;
    (void)user;
    return 0;
}

static EVP_PKEY *parse_key(const char *text, size_t size, bool is_private)
{
    BIO *bio = BIO_new_mem_buf(text, (int)size);
    EVP_PKEY *key = NULL;

    if (bio && is_private)
        key = PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL);
    else if (bio)
        key = PEM_read_bio_PUBKEY(bio, NULL, no_passphrase, NULL);
    BIO_free(bio);
    if (key && EVP_PKEY_get_base_id(key) != EVP_PKEY_ED25519) {
        EVP_PKEY_free(key);
        key = NULL;
    }
    return key;
}

static int load_key(const char *path, bool is_private, EVP_PKEY **ret_key, struct cr_err *err)
{
    char text[KEY_FILE_MAX];
    size_t size = 0;
    int r = read_file(path, is_private, text, &size, err);

    if (r == 0) {
        *ret_key = parse_key(text, size, is_private);
        if (!*ret_key)
            r = cr_err_set(err, EINVAL, "it is no %s Ed25519 key in PEM without a passphrase",
                           is_private ? "private" : "public");
    }
    OPENSSL_cleanse(text, sizeof(text));
    return r < 0 ? cr_err_wrap(err, "key '%s'", path) : 0;
}

/* The beginning of the public key's sha256. */
static int name_key(const EVP_PKEY *key, char key_id[KEY_ID_SIZE])
{
    uint8_t raw[PUBLIC_KEY_SIZE];
    size_t size = sizeof(raw);
    char digest[AGT_RECEIPT_DIGEST_SIZE];

    if (EVP_PKEY_get_raw_public_key(key, raw, &size) != 1)
        return -EIO;
    agt_receipt_digest(raw, size, digest);
    (void)snprintf(key_id, KEY_ID_SIZE, "%.16s", digest);
    return 0;
}

int agt_signer_load(const char *path, struct agt_signer **ret_signer, struct cr_err *err)
{
    struct agt_signer *signer = calloc(1, sizeof(*signer));
    int r;

    if (!signer)
        return cr_err_set(err, ENOMEM, "out of memory for a key");
    r = load_key(path, true, &signer->key, err);
    if (r == 0 && name_key(signer->key, signer->key_id) < 0)
        r = cr_err_set(err, EIO, "libcrypto cannot use the key '%s'", path);
    if (r < 0) {
        (void)agt_signer_free(signer);
        return r;
    }
    *ret_signer = signer;
    return 0;
}

struct agt_signer *agt_signer_free(struct agt_signer *signer)
{
    if (!signer)
        return NULL;
    EVP_PKEY_free(signer->key);
    free(signer);
    return NULL;
}

/* ---- signatures ---- */

static size_t write_message(const Crisol__Agent__V1__Receipt *receipt, char message[MESSAGE_SIZE])
{
    int size =
        snprintf(message, MESSAGE_SIZE, "crisol receipt signature 1\n%.64s\n", receipt->head);

    return (size_t)size;
}

static bool sign(EVP_PKEY *key, const char *message, size_t size, uint8_t *signature)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    size_t signature_size = AGT_RECEIPT_SIGNATURE_SIZE;
    bool is_signed =
        context && EVP_DigestSignInit(context, NULL, NULL, NULL, key) == 1 &&
        EVP_DigestSign(context, signature, &signature_size, (const uint8_t *)message, size) == 1 &&
        signature_size == AGT_RECEIPT_SIGNATURE_SIZE;

    EVP_MD_CTX_free(context);
    return is_signed;
}

int agt_receipt_sign(const struct agt_signer *signer, Crisol__Agent__V1__Receipt *receipt)
{
    char message[MESSAGE_SIZE];
    size_t size = write_message(receipt, message);
    CR_AUTO_FREE uint8_t *signature = malloc(AGT_RECEIPT_SIGNATURE_SIZE);
    char *key_id = strdup(signer->key_id);

    if (!signature || !key_id || !sign(signer->key, message, size, signature)) {
        free(key_id);
        return signature && key_id ? -EIO : -ENOMEM;
    }
    receipt->signature.data = cr_take_ptr(&signature);
    receipt->signature.len = AGT_RECEIPT_SIGNATURE_SIZE;
    receipt->key_id = key_id;
    return 0;
}

void agt_receipt_drop_signature(Crisol__Agent__V1__Receipt *receipt)
{
    free(receipt->signature.data);
    receipt->signature = (ProtobufCBinaryData){.data = NULL};
    if (receipt->key_id[0])
        free(receipt->key_id);
    receipt->key_id = cr_unconst("");
}

static bool fits(EVP_PKEY *key, const Crisol__Agent__V1__Receipt *receipt)
{
    char message[MESSAGE_SIZE];
    size_t size = write_message(receipt, message);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool is_good = context && EVP_DigestVerifyInit(context, NULL, NULL, NULL, key) == 1 &&
                   EVP_DigestVerify(context, receipt->signature.data, receipt->signature.len,
                                    (const uint8_t *)message, size) == 1;

    EVP_MD_CTX_free(context);
    return is_good;
}

int agt_receipt_check_signature(const Crisol__Agent__V1__Receipt *receipt,
                                const char *public_key_path, struct cr_err *err)
{
    EVP_PKEY *key = NULL;
    char key_id[KEY_ID_SIZE] = "";
    int r = load_key(public_key_path, false, &key, err);

    if (r < 0)
        return r;
    if (receipt->signature.len == 0)
        r = cr_err_set(err, EBADMSG, "it is not signed");
    else if (name_key(key, key_id) == 0 && strcmp(key_id, receipt->key_id) != 0)
        /* Also where the signature fits: the name is not under it. */
        r = cr_err_set(err, EBADMSG, "it was signed with another key");
    else if (receipt->signature.len == AGT_RECEIPT_SIGNATURE_SIZE && fits(key, receipt))
        r = 0;
    else
        r = cr_err_set(err, EBADMSG, "its signature does not fit");
    EVP_PKEY_free(key);
    return r;
}
