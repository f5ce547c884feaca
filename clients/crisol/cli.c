/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/crisol/cli.h"

#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "common/tls_files.h"
#include "rpc/client.h"
#include "rpc/server.h"
#include "rpc/status.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <sys/signalfd.h>

int cli_begin_calls(void)
{
    sigset_t set;
    int fd;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0) {
        int error = errno;

        (void)cli_fail("cannot watch for signals: %s", strerrordesc_np(error));
        return -error;
    }
    (void)sigprocmask(SIG_BLOCK, &set, NULL); /* fails only for a bad first argument */
    rpc_init();
    return fd;
}

void cli_end_calls(int cancel_fd)
{
    rpc_fini();
    (void)close(cancel_fd);
}

int cli_cancel_signal(int cancel_fd)
{
    struct signalfd_siginfo info;

    if (read(cancel_fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return 0;
    return (int)info.ssi_signo;
}

const char *cli_address(const char *option, const char *variable, const char *fallback)
{
    const char *value = option ? option : secure_getenv(variable);

    return value && *value ? value : fallback;
}

/* Returns 1 when the files are read, 0 when the link is to be plain, or -errno. */
static int read_certificates(const char *address, struct cr_tls_material *material,
                             struct cr_err *err)
{
    const struct cr_tls_paths paths = {{secure_getenv(CLI_TLS_CERTIFICATE),
                                        secure_getenv(CLI_TLS_KEY), secure_getenv(CLI_TLS_CA)}};
    const char *authority = paths.path[CR_TLS_AUTHORITY];
    CR_AUTO_CLOSE int fd = -1;
    int r;

    if (!authority || !*authority || strncmp(address, "unix:", 5) == 0)
        return 0;
    fd = cr_tls_files_open(&paths, err);
    r = fd < 0 ? fd : cr_tls_material_read(fd, material, err);
    return r < 0 ? r : 1;
}

struct rpc_channel *cli_connect(const char *address)
{
    struct cr_tls_material material = {{NULL}};
    struct rpc_channel *channel = NULL;
    struct cr_err err = CR_ERR_INIT;
    const char *token = secure_getenv("CRISOL_TOKEN");
    struct rpc_channel_options options = {
        .target = address,
        .token = token && *token ? token : NULL,
        .tls_name = secure_getenv(CLI_TLS_NAME),
        .max_response_bytes = 160U << 20,
    };
    int r = read_certificates(address, &material, &err);

    options.tls = r > 0 ? &material : NULL;
    if (r >= 0)
        r = rpc_channel_new(&options, &channel, &err);
    cr_tls_material_done(&material);
    if (r < 0) {
        (void)cli_fail("%s", err.text);
        return NULL;
    }
    return channel;
}

int cli_fail(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    int size;

    va_start(args, format);
    size = vasprintf(&text, format, args);
    va_end(args);
    (void)fputs("crisol: ", stderr);
    if (size >= 0)
        cli_print_untrusted(stderr, text, (size_t)size);
    (void)fputc('\n', stderr);
    if (size >= 0)
        free(text);
    return CLI_EXIT_SERVICE;
}

#define NOT_ADMITTED                                                                               \
    "closed at once: sandboxd admits root and the users of its --socket-owner and --allow-uid"
#define CLOSED_AT_ONCE                                                                             \
    "closed at once; the log of the service says why: TLS, a certificate, or connects too often"
#define NOBODY "nobody answers; 'make up' starts both services"

/* What to do, by the words of core for what went wrong below gRPC. The first match counts. */
static const struct {
    enum rpc_code code;
    const char *address; /* how it begins */
    const char *part;    /* of the message */
    const char *text;
} hints[] = {
    {RPC_UNAUTHENTICATED, "", "", "put the token of the service into CRISOL_TOKEN"},
    {RPC_UNAVAILABLE, "", "Permission denied",
     "sandboxd admits root and the users of its --socket-owner and --allow-uid"},
    {RPC_UNAVAILABLE, "unix:", "Broken pipe", NOT_ADMITTED},
    {RPC_UNAVAILABLE, "", "Broken pipe", CLOSED_AT_ONCE},
    /* The same close, seen a moment later. */
    {RPC_UNAVAILABLE, "unix:", ": Socket closed", NOT_ADMITTED},
    {RPC_UNAVAILABLE, "", ": Socket closed", CLOSED_AT_ONCE},
    {RPC_UNAVAILABLE, "unix:", "Connection reset by peer", NOT_ADMITTED},
    {RPC_UNAVAILABLE, "", "Connection reset by peer", CLOSED_AT_ONCE},
    {RPC_UNAVAILABLE, "", "failed to connect", NOBODY},
    {RPC_UNAVAILABLE, "", "DNS resolution failed", NOBODY},
    {RPC_UNAVAILABLE, "", "Socket closed", "the service stopped during the call"},
};

static void print_hint(const char *address, const struct rpc_status *status)
{
    for (size_t i = 0; i < CR_ARRAY_SIZE(hints); i++) {
        if (status->code != hints[i].code ||
            strncmp(address, hints[i].address, strlen(hints[i].address)) != 0 ||
            !strstr(status->message, hints[i].part))
            continue;
        (void)fprintf(stderr, "crisol: at %s: %s\n", address, hints[i].text);
        return;
    }
}

int cli_report(const char *address, const struct rpc_status *status)
{
    (void)fprintf(stderr, "crisol: %s: ", rpc_code_name(status->code));
    cli_print_untrusted(stderr, status->message, strlen(status->message));
    (void)fputc('\n', stderr);
    for (size_t i = 1; i < status->violation_count; i++) {
        (void)fputs("crisol:   also ", stderr);
        cli_print_untrusted(stderr, status->violations[i].field,
                            strlen(status->violations[i].field));
        (void)fputs(": ", stderr);
        cli_print_untrusted(stderr, status->violations[i].description,
                            strlen(status->violations[i].description));
        (void)fputc('\n', stderr);
    }
    if (status->retry_after_ms > 0)
        (void)fprintf(stderr, "crisol: try again in %d ms\n", (int)status->retry_after_ms);
    print_hint(address, status);
    return CLI_EXIT_SERVICE;
}

int cli_explain_end(const char *address, int cancel_fd, const struct rpc_status *status)
{
    int signal_number = cli_cancel_signal(cancel_fd);

    if (signal_number > 0)
        return CLI_EXIT_SIGNAL + signal_number;
    if (status->code == RPC_OK)
        return cli_fail("the service ended the call without a result");
    return cli_report(address, status);
}

void cli_print_untrusted(FILE *file, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)text[i];

        /* C1 controls arrive in UTF-8 as C2 80 … C2 9F; terminals obey them too. */
        if (byte == 0xC2 && i + 1 < size && ((unsigned char)text[i + 1] & 0xE0) == 0x80) {
            i++;
            (void)fprintf(file, "\\x%02x", (unsigned char)text[i]);
        } else if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F) {
            (void)fprintf(file, "\\x%02x", byte);
        } else {
            (void)fputc(byte, file);
        }
    }
}

int cli_parse_number(const char *option, const char *text, unsigned long long min,
                     unsigned long long max, unsigned long long *ret_value)
{
    char *end = NULL;
    unsigned long long value;

    errno = 0;
    value = *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
    if (!end || *end != '\0' || errno != 0 || value < min || value > max) {
        (void)cli_fail("%s: '%s' is not a whole number from %llu to %llu", option, text, min, max);
        return -EINVAL;
    }
    *ret_value = value;
    return 0;
}

int cli_read_file(const char *path, struct cr_buf *buf)
{
    CR_AUTO_CLOSE int opened = -1;
    int fd = STDIN_FILENO;
    char chunk[16384];

    if (strcmp(path, "-") != 0) {
        opened = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (opened < 0) {
            int error = errno;

            (void)cli_fail("cannot open '%s': %s", path, strerrordesc_np(error));
            return -error;
        }
        fd = opened;
    }
    for (;;) {
        ssize_t n = read(fd, chunk, sizeof(chunk));
        int r;

        if (n == 0)
            return 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            int error = errno;

            (void)cli_fail("cannot read '%s': %s", path, strerrordesc_np(error));
            return -error;
        }
        r = cr_buf_add(buf, chunk, (size_t)n);
        if (r < 0) {
            (void)cli_fail("'%s' is larger than %zu bytes, the most that a request holds", path,
                           buf->cap);
            return r;
        }
    }
}

int cli_read_text(const char *path, struct cr_buf *buf)
{
    int r = cli_read_file(path, buf);

    if (r < 0 || strlen(cr_buf_str(buf)) == buf->size)
        return r;
    (void)cli_fail("'%s' holds a NUL byte: it is not text", path);
    return -EINVAL;
}

int cli_write_all(int fd, const void *data, size_t size)
{
    const char *at = data;

    while (size > 0) {
        ssize_t n = write(fd, at, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        at += n;
        size -= (size_t)n;
    }
    return 0;
}
