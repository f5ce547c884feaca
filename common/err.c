/* SPDX-License-Identifier: Apache-2.0 */
#include "common/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The static sandbox-init is linked against glibc too, so this is always there. */
static const char *describe(int errnum)
{
    const char *text = strerrordesc_np(errnum);

    return text ? text : "unknown error";
}

int cr_err_set(struct cr_err *err, int errnum, const char *format, ...)
{
    va_list args;

    if (err) {
        err->code = -errnum;
        va_start(args, format);
        (void)vsnprintf(err->text, sizeof(err->text), format, args);
        va_end(args);
    }
    return -errnum;
}

int cr_err_sys(struct cr_err *err, int errnum, const char *format, ...)
{
    va_list args;
    size_t used;

    if (err) {
        err->code = -errnum;
        va_start(args, format);
        (void)vsnprintf(err->text, sizeof(err->text), format, args);
        va_end(args);
        used = strlen(err->text);
        (void)snprintf(err->text + used, sizeof(err->text) - used, ": %s", describe(errnum));
    }
    return -errnum;
}

int cr_err_wrap(struct cr_err *err, const char *format, ...)
{
    char inner[CR_ERR_TEXT_MAX];
    va_list args;
    size_t used;

    if (!err)
        return -EINVAL;
    memcpy(inner, err->text, sizeof(inner));
    va_start(args, format);
    (void)vsnprintf(err->text, sizeof(err->text), format, args);
    va_end(args);
    used = strlen(err->text);
    (void)snprintf(err->text + used, sizeof(err->text) - used, ": %s", inner);
    return err->code;
}
