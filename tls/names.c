/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/names.h"

#include <string.h>
#include <strings.h>

#include <openssl/x509v3.h>

bool tls_names_is_listed(const char *allowed, const char *name, size_t size, bool is_dns)
{
    if (!allowed || !*allowed)
        return true;
    while (*allowed) {
        size_t length = strcspn(allowed, ",");

        if (length == size &&
            (is_dns ? strncasecmp(allowed, name, size) == 0 : memcmp(allowed, name, size) == 0))
            return true;
        allowed += length;
        allowed += *allowed == ',' ? 1 : 0;
    }
    return false;
}

static bool is_plain(const unsigned char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (text[i] <= ' ' || text[i] > '~' || strchr("\"',\\", text[i]))
            return false;
    }
    return size > 0 && size < TLS_NAME_MAX;
}

/* One name; true when it is a usable one that is allowed. */
static bool look(const GENERAL_NAME *entry, const char *allowed, char name[TLS_NAME_MAX])
{
    bool is_dns = entry->type == GEN_DNS;
    const ASN1_STRING *value;
    const unsigned char *text;
    size_t size;

    if (!is_dns && entry->type != GEN_URI)
        return false;
    value = is_dns ? entry->d.dNSName : entry->d.uniformResourceIdentifier;
    text = ASN1_STRING_get0_data(value);
    size = (size_t)ASN1_STRING_length(value);
    if (!is_plain(text, size))
        return false;
    if (!tls_names_is_listed(allowed, (const char *)text, size, is_dns)) {
        if (name[0])
            return false;
        memcpy(name, text, size);
        name[size] = '\0';
        return false;
    }
    memcpy(name, text, size);
    name[size] = '\0';
    return true;
}

bool tls_names_find(const X509 *certificate, const char *allowed, char name[TLS_NAME_MAX])
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    bool is_found = false;

    name[0] = '\0';
    for (int i = 0; !is_found && i < sk_GENERAL_NAME_num(names); i++)
        is_found = look(sk_GENERAL_NAME_value(names, i), allowed, name);
    GENERAL_NAMES_free(names);
    return is_found;
}
