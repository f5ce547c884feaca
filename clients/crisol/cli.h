/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct cr_buf;
struct rpc_channel;
struct rpc_status;

/*
 * What the subcommands of crisol share. Progress goes to stderr, results to
 * stdout. Exit codes follow what people know from timeout(1) and docker run.
 */
enum cli_exit {
    CLI_EXIT_OK = 0,
    CLI_EXIT_FAILED = 1,      /* the run ended without success, or a service is not healthy */
    CLI_EXIT_LIMIT = 124,     /* exec: sandboxd ended the program for a limit */
    CLI_EXIT_SERVICE = 125,   /* wrong usage, or the service could not do it */
    CLI_EXIT_NO_EXEC = 126,   /* exec: the program is there and could not be started */
    CLI_EXIT_NOT_FOUND = 127, /* exec: there is no such program */
    CLI_EXIT_SIGNAL = 128,    /* plus the number of the signal that ended the program */
};

#define CLI_DEFAULT_SANDBOX "unix:/run/crisol/sandboxd.sock"
#define CLI_DEFAULT_ORCHESTRATOR "127.0.0.1:50051"

/* Subcommands: argv[0] is the subcommand. Each returns the exit code. */
int cli_exec(int argc, char **argv);
int cli_batch(int argc, char **argv);
int cli_shell(int argc, char **argv);
int cli_run(int argc, char **argv);
int cli_watch(int argc, char **argv);
int cli_runs(int argc, char **argv);
int cli_resume(int argc, char **argv);
int cli_fork(int argc, char **argv);
int cli_cancel(int argc, char **argv);
int cli_forget(int argc, char **argv);
int cli_export(int argc, char **argv);
int cli_replay(int argc, char **argv);
int cli_verify_receipt(int argc, char **argv);
int cli_health(int argc, char **argv);
int cli_attack(int argc, char **argv);
int cli_top(int argc, char **argv);

/*
 * Begins calling services: turns SIGINT and SIGTERM into a signalfd that
 * cancels calls, then starts the gRPC core, whose threads inherit the mask.
 * Until then both signals end the process as usual. Returns the signalfd, or
 * -errno. Pair with cli_end_calls() on every path.
 */
int cli_begin_calls(void);
void cli_end_calls(int cancel_fd);

/* The signal that arrived on the fd of cli_begin_calls; 0 when none did. */
int cli_cancel_signal(int cancel_fd);

/* The value of an option, else of the environment, else the default. */
const char *cli_address(const char *option, const char *variable, const char *fallback);

/* PEM files of a link by TLS, and the name that the server's certificate has if it is not the host
 * of the address: in the environment, or options before the command (--tls-ca …). */
#define CLI_TLS_CA "CRISOL_CLIENT_TLS_CA"
#define CLI_TLS_CERTIFICATE "CRISOL_CLIENT_TLS_CERT"
#define CLI_TLS_KEY "CRISOL_CLIENT_TLS_KEY"
#define CLI_TLS_NAME "CRISOL_CLIENT_TLS_NAME"

/* Opens a channel; prints why on failure. NULL then. Token from `CRISOL_TOKEN` in the environment.
 * By TLS when an authority is named and the address is no unix socket. */
struct rpc_channel *cli_connect(const char *address);

/* Prints "crisol: …" for a failed call to stderr, with each bad field. Returns CLI_EXIT_SERVICE. */
int cli_report(const char *address, const struct rpc_status *status);

/* The exit code of a call that ended without its result: by a signal, or for what is said here. */
int cli_explain_end(const char *address, int cancel_fd, const struct rpc_status *status);

/* Prints "crisol: …" and a newline. Returns CLI_EXIT_SERVICE. */
int cli_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * Prints text that came from a program or a model: control characters other
 * than newline and tab are shown as \xNN, so that it cannot drive the terminal.
 */
void cli_print_untrusted(FILE *file, const char *text, size_t size);

/* A whole number from min to max out of an option; prints what is wrong. Returns 0 or -EINVAL. */
int cli_parse_number(const char *option, const char *text, unsigned long long min,
                     unsigned long long max, unsigned long long *ret_value);

/* Reads a file (or "-": standard input) up to the cap of `buf`. Prints what is wrong. Returns 0 or
 * -errno. */
int cli_read_file(const char *path, struct cr_buf *buf);

/* The same for what goes into a string of a request, which a NUL byte would cut: -EINVAL for one.
 */
int cli_read_text(const char *path, struct cr_buf *buf);

/* Writes everything to an fd. Returns 0 or -errno (-EPIPE quietly). */
int cli_write_all(int fd, const void *data, size_t size);
