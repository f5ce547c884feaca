/* SPDX-License-Identifier: Apache-2.0 */
#include "common/edge.h"

#include "common/err.h"
#include "common/unconst.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

/* So that a bucket of either size fits into 64 bits of nanoseconds many times over. */
#define PER_S_MAX 1000000UL
#define BURST_MAX 10000000UL

/* From 1 to `most`, in digits alone; moves *at behind them. */
static bool read_number(const char **at, unsigned long most, uint32_t *ret_value)
{
    unsigned long value;
    char *end;

    if (**at < '0' || **at > '9')
        return false;
    errno = 0;
    value = strtoul(*at, &end, 10);
    *at = end;
    *ret_value = (uint32_t)value;
    return errno == 0 && value >= 1 && value <= most;
}

static bool skip(const char **at, char expected)
{
    if (**at != expected)
        return false;
    (*at)++;
    return true;
}

static bool read_rate(const char **at, struct cr_rate *ret_rate)
{
    return read_number(at, PER_S_MAX, &ret_rate->per_s) && skip(at, '/') &&
           read_number(at, BURST_MAX, &ret_rate->burst);
}

static int parse_rate(const char *flag, const char *text, struct cr_rate *ret_rate,
                      struct cr_err *err)
{
    const char *at = text;

    if (read_rate(&at, ret_rate) && *at == '\0')
        return 0;
    return cr_err_set(err, EINVAL,
                      "--%s: '%s' is not PER_S/BURST, from 1/1 to %lu/%lu, such as 20/64", flag,
                      text, PER_S_MAX, BURST_MAX);
}

static int parse_rates(const char *flag, const char *text, struct cr_rate *ret_connection,
                       struct cr_rate *ret_peer, struct cr_err *err)
{
    const char *at = text;

    if (read_rate(&at, ret_connection) && skip(&at, ',') && read_rate(&at, ret_peer) && *at == '\0')
        return 0;
    return cr_err_set(
        err, EINVAL,
        "--%s: '%s' is not PER_S/BURST,PER_S/BURST (of a connection, of a peer), from "
        "1/1 to %lu/%lu, such as 20/100,5000/20000",
        flag, text, PER_S_MAX, BURST_MAX);
}

#define SKIP_NUMBER(flag, name, member, least, most, standard, text)
#define FLAG_OF(flag, name, member, standard, text) flag,

/* The flags that hold rates: those of accepting first, then one for each kind of frame. */
static const char *const rate_flags[] = {CR_EDGE_SETTINGS_TABLE(SKIP_NUMBER, FLAG_OF)};

#define ACCEPT_FLAGS 2
_Static_assert(sizeof(rate_flags) / sizeof(rate_flags[0]) == ACCEPT_FLAGS + CR_EDGE_KIND_COUNT,
               "one setting per kind");

#define COPY_NUMBER(flag, name, member, least, most, standard, text)                               \
    ret_edge->member = (uint32_t)settings->member;
#define SKIP_TEXT(flag, name, member, standard, text)

int cr_edge_parse(const struct cr_edge_settings *settings, struct cr_edge *ret_edge,
                  struct cr_err *err)
{
    int r = parse_rate(rate_flags[0], settings->user_accepts, &ret_edge->user_accepts, err);

    if (r == 0)
        r = parse_rate(rate_flags[1], settings->address_accepts, &ret_edge->address_accepts, err);
    for (size_t i = 0; r == 0 && i < CR_EDGE_KIND_COUNT; i++)
        r = parse_rates(rate_flags[ACCEPT_FLAGS + i], settings->frames[i],
                        &ret_edge->frames[i].connection, &ret_edge->frames[i].peer, err);
    CR_EDGE_SETTINGS_TABLE(COPY_NUMBER, SKIP_TEXT)
    return r;
}

#define SET_NUMBER(flag, name, member, least, most, standard, text)                                \
    settings.member = strtoul(standard, NULL, 10);
#define SET_TEXT(flag, name, member, standard, text) settings.member = cr_unconst(standard);

void cr_edge_defaults(struct cr_edge *ret_edge)
{
    struct cr_edge_settings settings;

    CR_EDGE_SETTINGS_TABLE(SET_NUMBER, SET_TEXT)
    (void)cr_edge_parse(&settings, ret_edge, NULL); /* a test holds that they are well formed */
}
