/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes the n-th allocation of our own code fail. The test is linked with
 * WRAP ${TEST_ALLOC_WRAP} and the library test_alloc; libraries that are shared objects are not
 * touched.
 */

/* The n-th allocation from now on fails, once; 0 fails the next. */
void test_fail_alloc(int n);

/* The same, counting only what the threads of this name (PR_GET_NAME) allocate. Static storage. */
void test_fail_alloc_of(const char *thread, int n);

/* Back to normal. Returns 1 when the failure was used up, else 0. */
int test_stop_alloc(void);
