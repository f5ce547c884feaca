/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cr_err;

/*
 * What an operator says about models: what they cost, and with which
 * parameters they are asked. A text file, one model a line:
 *
 *   # US dollars per million tokens
 *   gemini-2.5-flash  input=0.30 output=2.50 temperature=0.7 max-output=32768 thinking=4096
 *   gemini-2.5-*      input=1.25 output=10
 *
 * A name that ends with '*' stands for all that begin so; the first line that
 * fits counts. Prices come in pairs; everything is optional.
 */
struct agt_catalog_entry {
    char name[129]; /* without the '*' */
    bool is_prefix;
    bool has_price;
    uint64_t input_price; /* millionths of a dollar per million tokens */
    uint64_t output_price;
    bool has_temperature;
    double temperature;
    bool has_thinking;
    int32_t thinking_budget;    /* tokens; -1: as the model likes */
    uint32_t max_output_tokens; /* 0: not said */
};

struct agt_catalog;

/* Refuses what is not understood and names its line. Returns 0, -EINVAL, -ENOMEM. Pure. */
int agt_catalog_parse(const char *text, size_t size, struct agt_catalog **ret_catalog,
                      struct cr_err *err);

/* The same with a file of at most 64 KiB. */
int agt_catalog_load(const char *path, struct agt_catalog **ret_catalog, struct cr_err *err);

struct agt_catalog *agt_catalog_free(struct agt_catalog *catalog); /* NULL is allowed */

/* Borrowed; NULL: nothing is said about this model. `catalog` may be NULL. */
const struct agt_catalog_entry *agt_catalog_find(const struct agt_catalog *catalog,
                                                 const char *model);

/* In millionths of a dollar, rounded up. The entry has a price. */
uint64_t agt_catalog_cost(const struct agt_catalog_entry *entry, uint32_t input_tokens,
                          uint32_t output_tokens);
