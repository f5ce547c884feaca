/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/integration/rpc/raw.h"

#include "common/clock.h"
#include "tests/harness/test.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FRAME_DATA = 0,
    FRAME_HEADERS = 1,
    FRAME_SETTINGS = 4
};

enum {
    FLAG_END_STREAM = 1,
    FLAG_END_HEADERS = 4
};

static void write_all(int fd, const void *data, size_t size)
{
    assert_int_equal(write(fd, data, size), (ssize_t)size);
}

static void write_frame(int fd, uint8_t type, uint8_t flags, uint32_t stream, const void *data,
                        size_t size)
{
    uint8_t head[9] = {
        (uint8_t)(size >> 16), (uint8_t)(size >> 8), (uint8_t)size, type, flags, 0, 0, 0,
        (uint8_t)stream};

    write_all(fd, head, sizeof(head));
    if (size > 0)
        write_all(fd, data, size);
}

/* A literal without indexing, name and value in plain text (RFC 7541, 6.2.2). */
static size_t add_header(uint8_t *block, size_t used, const char *name, const char *value)
{
    size_t name_size = strlen(name);
    size_t value_size = strlen(value);

    assert_true(name_size < 127 && value_size < 127);
    block[used++] = 0;
    block[used++] = (uint8_t)name_size;
    memcpy(block + used, name, name_size);
    used += name_size;
    block[used++] = (uint8_t)value_size;
    memcpy(block + used, value, value_size);
    return used + value_size;
}

void raw_open(int fd, const char *path)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    uint8_t block[1024];
    size_t used = 0;

    write_all(fd, preface, sizeof(preface) - 1);
    write_frame(fd, FRAME_SETTINGS, 0, 0, NULL, 0);
    used = add_header(block, used, ":method", "POST");
    used = add_header(block, used, ":scheme", "http");
    used = add_header(block, used, ":path", path);
    used = add_header(block, used, ":authority", "test");
    used = add_header(block, used, "te", "trailers");
    used = add_header(block, used, "content-type", "application/grpc");
    write_frame(fd, FRAME_HEADERS, FLAG_END_HEADERS, 1, block, used);
}

void raw_data(int fd, const void *data, size_t size, bool is_last)
{
    write_frame(fd, FRAME_DATA, is_last ? FLAG_END_STREAM : 0, 1, data, size);
}

/* Core writes header names in plain text the first time it uses them on a connection. */
static int find_status(const uint8_t *data, size_t size)
{
    static const char name[] = "grpc-status";
    const uint8_t *found = memmem(data, size, name, sizeof(name) - 1);
    char text[4] = "";
    size_t length;

    if (!found)
        return -1;
    found += sizeof(name) - 1;
    length = (size_t)(data + size - found) > 1 ? found[0] : 0;
    if (length == 0 || length > 2 || (size_t)(data + size - found) <= length)
        return -1;
    memcpy(text, found + 1, length);
    return (int)strtol(text, NULL, 10);
}

int raw_read_status(int fd)
{
    int64_t due_ns = cr_clock_mono_ns() + 60 * CR_NS_PER_S;
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    uint8_t data[16384];
    size_t used = 0;
    int status = -1;

    while (status < 0 && cr_clock_mono_ns() < due_ns) {
        ssize_t n;

        if (poll(&wait, 1, 100) <= 0)
            continue;
        n = read(fd, data + used, sizeof(data) - used);
        if (n <= 0)
            break;
        used += (size_t)n;
        status = find_status(data, used);
    }
    assert_true(status >= 0);
    return status;
}
