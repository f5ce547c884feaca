/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct sbx_payload_reader;

/*
 * Maps the payload read-only and opens it. For unprivileged processes only;
 * the map lives as long as the process. Returns 0 or -errno.
 */
int sbx_payload_map(int fd, struct sbx_payload_reader *ret_reader);
