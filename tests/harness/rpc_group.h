/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* For cmocka: rpc_init and rpc_fini around a group of tests. */
int test_rpc_init(void **state);
int test_rpc_fini(void **state);
