/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/err.h"
#include "sandboxd/docker/attach.h"
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <sys/socket.h>

/* Without the right head nothing is taken, so that more of it can come; behind one, what follows is
 * left for the relay. */
static void check(int ours, const uint8_t *data, size_t size)
{
    struct cr_err err = CR_ERR_INIT;
    const int r = sbx_attach_end(ours, &err);
    char rest[16384];
    const ssize_t left = recv(ours, rest, sizeof(rest), MSG_DONTWAIT);

    FUZZ_CHECK(r == 0 || r == -EAGAIN || (r < 0 && err.text[0]));
    if (r == 0)
        FUZZ_CHECK(size >= 13 && memcmp(data, "HTTP/1.1 101 ", 13) == 0);
    else
        FUZZ_CHECK(left == (ssize_t)size || size == 0);
    if (left > 0)
        FUZZ_CHECK(memcmp(rest, data + (size - (size_t)left), (size_t)left) == 0);
}

/* The answer of an engine that was asked to attach to a container. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CR_AUTO_CLOSE int ours = -1;
    CR_AUTO_CLOSE int theirs = -1;
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return 0;
    ours = pair[0];
    theirs = pair[1];
    if (send(theirs, data, size, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)size)
        check(ours, data, size);
    return 0;
}
