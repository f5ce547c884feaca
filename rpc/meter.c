/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/meter.h"

#include "common/auto.h"
#include "common/clock.h"

#include <stdio.h>
#include <string.h>

#define NAME_MAX_BYTES 128

/* As Go's codes.Code prints them, which is what go-grpc-prometheus puts into its labels. */
static const char *const code_names[RPC_CODE_COUNT] = {
    [RPC_OK] = "OK",
    [RPC_CANCELLED] = "Canceled",
    [RPC_UNKNOWN] = "Unknown",
    [RPC_INVALID_ARGUMENT] = "InvalidArgument",
    [RPC_DEADLINE_EXCEEDED] = "DeadlineExceeded",
    [RPC_NOT_FOUND] = "NotFound",
    [RPC_ALREADY_EXISTS] = "AlreadyExists",
    [RPC_PERMISSION_DENIED] = "PermissionDenied",
    [RPC_RESOURCE_EXHAUSTED] = "ResourceExhausted",
    [RPC_FAILED_PRECONDITION] = "FailedPrecondition",
    [RPC_ABORTED] = "Aborted",
    [RPC_OUT_OF_RANGE] = "OutOfRange",
    [RPC_UNIMPLEMENTED] = "Unimplemented",
    [RPC_INTERNAL] = "Internal",
    [RPC_UNAVAILABLE] = "Unavailable",
    [RPC_DATA_LOSS] = "DataLoss",
    [RPC_UNAUTHENTICATED] = "Unauthenticated",
};

static const char *const kind_names[] = {
    [RPC_UNARY] = "unary",
    [RPC_SERVER_STREAM] = "server_stream",
    [RPC_BIDI] = "bidi_stream",
};

static void bump(atomic_uint_fast64_t *count)
{
    atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
}

void rpc_counts_start(struct rpc_counts *counts)
{
    bump(&counts->started);
}

void rpc_counts_receive(struct rpc_counts *counts)
{
    bump(&counts->received);
}

void rpc_counts_send(struct rpc_counts *counts)
{
    bump(&counts->sent);
}

void rpc_counts_end(struct rpc_counts *counts, int code, int64_t started_ns)
{
    int64_t took_ns = cr_clock_mono_ns() - started_ns;

    bump(&counts->handled[code < 0 || code >= RPC_CODE_COUNT ? RPC_UNKNOWN : code]);
    cr_histogram_note(&counts->seconds, (uint64_t)(took_ns > 0 ? took_ns / CR_NS_PER_US : 0));
}

/* ---- writing ---- */

/* The three labels of a method; the texts are in `service`, and borrowed. */
struct labels {
    char service[NAME_MAX_BYTES];
    struct cr_metrics_label list[CR_METRICS_LABELS_MAX];
};

static void fill_labels(struct labels *labels, const struct rpc_metered *method)
{
    const char *path = method->path ? method->path : "/unknown/unknown";
    const char *slash = strrchr(path, '/');

    /* cppcheck-suppress ctuuninitvar ; it is filled in here */
    (void)snprintf(labels->service, sizeof(labels->service), "%.*s", (int)(slash - path - 1),
                   path + 1);
    memset(labels->list, 0, sizeof(labels->list));
    labels->list[0] = (struct cr_metrics_label){"grpc_type", kind_names[method->kind]};
    labels->list[1] = (struct cr_metrics_label){"grpc_service", labels->service};
    labels->list[2] = (struct cr_metrics_label){"grpc_method", slash + 1};
}

static uint64_t read_count(const atomic_uint_fast64_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

static void write_handled(struct cr_metrics *metrics, struct labels *labels,
                          const struct rpc_counts *counts)
{
    for (size_t code = 0; code < RPC_CODE_COUNT; code++) {
        labels->list[3] = (struct cr_metrics_label){"grpc_code", code_names[code]};
        cr_metrics_count(metrics, labels->list, read_count(&counts->handled[code]));
    }
}

enum family {
    STARTED,
    HANDLED,
    RECEIVED,
    SENT,
    SECONDS,
    FAMILY_COUNT,
};

static const struct {
    const char *name; /* behind grpc_SIDE_ */
    const char *type;
    const char *help;
} families[FAMILY_COUNT] = {
    [STARTED] = {"started_total", "counter", "Calls that were started."},
    [HANDLED] = {"handled_total", "counter", "Calls that were completed, by code."},
    [RECEIVED] = {"msg_received_total", "counter", "Messages that were received."},
    [SENT] = {"msg_sent_total", "counter", "Messages that were sent."},
    [SECONDS] = {"handling_seconds", "histogram", "From the start of a call to its end."},
};

static void write_sample(struct cr_metrics *metrics, enum family family,
                         const struct rpc_metered *method)
{
    const struct rpc_counts *counts = method->counts;
    struct labels labels;

    fill_labels(&labels, method);
    switch (family) {
    case STARTED:
        cr_metrics_count(metrics, labels.list, read_count(&counts->started));
        break;
    case HANDLED:
        write_handled(metrics, &labels, counts);
        break;
    case RECEIVED:
        cr_metrics_count(metrics, labels.list, read_count(&counts->received));
        break;
    case SENT:
        cr_metrics_count(metrics, labels.list, read_count(&counts->sent));
        break;
    default:
        cr_metrics_histogram(metrics, labels.list, &counts->seconds);
        break;
    }
}

void rpc_meter_write(struct cr_metrics *metrics, const char *side, const struct rpc_metered *list,
                     size_t count)
{
    char name[64];

    for (size_t family = 0; family < FAMILY_COUNT; family++) {
        (void)snprintf(name, sizeof(name), "grpc_%s_%s", side, families[family].name);
        cr_metrics_family(metrics, name, families[family].type, families[family].help);
        for (size_t i = 0; i < count; i++)
            write_sample(metrics, (enum family)family, &list[i]);
    }
}
