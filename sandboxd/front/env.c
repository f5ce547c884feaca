/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/env.h"

#include "common/auto.h"

#include <string.h>

#define NAME_MAX_BYTES 256U

static const char steers_loader[] = "steers the dynamic loader or libc and is refused";
static const char steers_interpreter[] = "steers an interpreter or a tool and is refused";
static const char is_fixed[] = "is set by the sandbox and cannot be changed";

/* LANG, LC_* and TZ are free: they change what a program shows, not what it loads. */
static const struct {
    const char *name;
    bool is_prefix;
    const char *reason;
} refused[] = {
    {"LD_", true, steers_loader},
    {"GLIBC_", true, steers_loader},
    {"MALLOC_", true, steers_loader},
    {"GCONV_PATH", false, steers_loader},
    {"GETCONF_DIR", false, steers_loader},
    {"HOSTALIASES", false, steers_loader},
    {"LOCALDOMAIN", false, steers_loader},
    {"LOCPATH", false, steers_loader},
    {"NLSPATH", false, steers_loader},
    {"RES_OPTIONS", false, steers_loader},
    {"RESOLV_", true, steers_loader},
    {"TZDIR", false, steers_loader},
    {"PYTHON", true, steers_interpreter},
    {"PYTEST", true, steers_interpreter},
    {"PY_COLORS", false, steers_interpreter},
    {"NODE_", true, steers_interpreter},
    {"NPM_", true, steers_interpreter},
    {"PERL", true, steers_interpreter},
    {"RUBY", true, steers_interpreter},
    {"JAVA_", true, steers_interpreter},
    {"JDK_JAVA_OPTIONS", false, steers_interpreter},
    {"_JAVA_OPTIONS", false, steers_interpreter},
    {"CLASSPATH", false, steers_interpreter},
    {"BASH_", true, steers_interpreter},
    {"BASHOPTS", false, steers_interpreter},
    {"SHELLOPTS", false, steers_interpreter},
    {"ENV", false, steers_interpreter},
    {"IFS", false, steers_interpreter},
    {"CDPATH", false, steers_interpreter},
    {"PS4", false, steers_interpreter},
    {"PROMPT_COMMAND", false, steers_interpreter},
    {"CRISOL_", true, steers_interpreter},
    {"PATH", false, is_fixed},
    {"HOME", false, is_fixed},
    {"USER", false, is_fixed},
    {"LOGNAME", false, is_fixed},
    {"SHELL", false, is_fixed},
    {"PWD", false, is_fixed},
    {"OLDPWD", false, is_fixed},
    {"TMPDIR", false, is_fixed},
};

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool sbx_env_name_is_valid(const char *name)
{
    size_t length = strlen(name);

    if (length > NAME_MAX_BYTES || !is_letter(name[0]))
        return false;
    for (size_t i = 1; i < length; i++) {
        if (!is_letter(name[i]) && (name[i] < '0' || name[i] > '9'))
            return false;
    }
    return true;
}

const char *sbx_env_refusal(const char *name)
{
    for (size_t i = 0; i < CR_ARRAY_SIZE(refused); i++) {
        size_t length = strlen(refused[i].name);

        if (strncmp(name, refused[i].name, length) == 0 &&
            (refused[i].is_prefix || name[length] == '\0'))
            return refused[i].reason;
    }
    return NULL;
}
