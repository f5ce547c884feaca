/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct cr_err;

/*
 * Internal to rpc/: an index of a serialized FileDescriptorSet, by file name
 * and by the full name of every message, enum, service, method, field, oneof,
 * enum value and extension. Reads the wire bytes itself: protobuf-c has no
 * descriptor.proto, and nothing but names is wanted. Read-only once built.
 */
struct rpc_descriptors;

#define RPC_DESCRIPTORS_FILES_MAX 64

/* A FileDescriptorProto; borrowed from the set. */
struct rpc_descriptors_file {
    const uint8_t *data;
    size_t size;
};

/* `data` is borrowed for the life of the index. Returns 0, -EINVAL or -ENOMEM. */
int rpc_descriptors_new(const uint8_t *data, size_t size, struct rpc_descriptors **ret_descriptors,
                        struct cr_err *err);
struct rpc_descriptors *
rpc_descriptors_free(struct rpc_descriptors *descriptors); /* NULL is allowed; returns NULL */

/* Index of the file with this name, or -ENOENT. */
int rpc_descriptors_find_file(const struct rpc_descriptors *descriptors, const char *name);

/* Index of the file that defines the symbol ("package.Message.field"), or -ENOENT. */
int rpc_descriptors_find_symbol(const struct rpc_descriptors *descriptors, const char *symbol);

/* As find_symbol, but the symbol must be a message. */
int rpc_descriptors_find_message(const struct rpc_descriptors *descriptors, const char *name);

/* The file and everything that it imports, itself first, each once. Returns how many. */
size_t rpc_descriptors_closure(const struct rpc_descriptors *descriptors, int file,
                               struct rpc_descriptors_file ret_files[RPC_DESCRIPTORS_FILES_MAX]);
