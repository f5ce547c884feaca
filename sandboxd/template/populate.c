/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/patience.h"
#include "sandboxd/template/preload.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/syscall.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; older kernels refuse it, and nothing is lost */
#endif

#define PAGE_BYTES UINT64_C(4096)
#define TRIAL_DEADLINE_MS 120000 /* less than the backend waits for the whole start */
#define PAGES_AT_ONCE 512U
#define LINE_MAX_BYTES 512
#define OWN_BYTES "RssAnon:" /* in kB, see proc(5) */

/* Of /proc/PID/pagemap: Documentation/admin-guide/mm/pagemap.rst of the kernel. */
#define PAGE_IS_PRESENT (UINT64_C(1) << 63)
#define PAGE_IS_EXCLUSIVE (UINT64_C(1) << 56)

struct finder {
    struct sbx_preload_range *ranges; /* room for SBX_PRELOAD_RANGES_MAX */
    size_t count;
    int pagemap_fd;
};

static void add_page(struct finder *finder, uint64_t address)
{
    struct sbx_preload_range *last = finder->count > 0 ? &finder->ranges[finder->count - 1] : NULL;

    if (last && last->address + last->size == address)
        last->size += PAGE_BYTES;
    else if (finder->count < SBX_PRELOAD_RANGES_MAX)
        finder->ranges[finder->count++] =
            (struct sbx_preload_range){.address = address, .size = PAGE_BYTES};
}

static void find_in(struct finder *finder, uint64_t start, uint64_t end)
{
    uint64_t entries[PAGES_AT_ONCE];

    for (uint64_t at = start; at < end;) {
        uint64_t left = (end - at) / PAGE_BYTES;
        size_t wanted = left < PAGES_AT_ONCE ? (size_t)left : PAGES_AT_ONCE;
        ssize_t got = pread(finder->pagemap_fd, entries, wanted * sizeof(entries[0]),
                            (off_t)(at / PAGE_BYTES * sizeof(entries[0])));

        if (got <= 0)
            return;
        for (size_t i = 0; i < (size_t)got / sizeof(entries[0]); i++, at += PAGE_BYTES) {
            if ((entries[i] & PAGE_IS_PRESENT) && (entries[i] & PAGE_IS_EXCLUSIVE))
                add_page(finder, at);
        }
    }
}

/* The stack is left out: its pages come from the process that forks. */
static void find_all(struct finder *finder)
{
    CR_AUTO_FCLOSE FILE *maps = fopen("/proc/self/maps", "re");
    char line[LINE_MAX_BYTES];

    while (maps && fgets(line, sizeof(line), maps)) {
        char *at = line;
        uint64_t start = strtoull(line, &at, 16);
        uint64_t end = *at == '-' ? strtoull(at + 1, &at, 16) : 0;

        if (end > start && strncmp(at, " rw-p ", 6) == 0 && !strstr(at, "[stack]"))
            find_in(finder, start, end);
    }
}

void sbx_preload_report_ranges(const struct sbx_preload *preload)
{
    const size_t room = SBX_PRELOAD_RANGES_MAX * sizeof(struct sbx_preload_range);
    CR_AUTO_CLOSE int pagemap_fd = -1;
    struct finder finder;
    void *memory;

    if (!preload->is_trial)
        return;
    pagemap_fd = openat(AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    memory = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pagemap_fd < 0 || memory == MAP_FAILED)
        return;
    finder = (struct finder){.ranges = memory, .pagemap_fd = pagemap_fd};
    find_all(&finder);
    for (size_t sent = 0; sent < finder.count * sizeof(finder.ranges[0]);) {
        ssize_t n = write(preload->trial_fd, (const char *)memory + sent,
                          finder.count * sizeof(finder.ranges[0]) - sent);

        if (n <= 0)
            return;
        sent += (size_t)n;
    }
}

uint64_t sbx_preload_own_bytes(void)
{
    CR_AUTO_FCLOSE FILE *status = fopen("/proc/self/status", "re");
    char line[LINE_MAX_BYTES];

    while (status && fgets(line, sizeof(line), status)) {
        if (strncmp(line, OWN_BYTES, strlen(OWN_BYTES)) == 0)
            return strtoull(line + strlen(OWN_BYTES), NULL, 10) << 10;
    }
    return 0;
}

int sbx_preload_read_ranges(struct sbx_preload *preload, int fd)
{
    const size_t room = SBX_PRELOAD_RANGES_MAX * sizeof(struct sbx_preload_range);
    struct pollfd watch = {.fd = fd, .events = POLLIN};
    /* A mapping of its own, so that its pages lie beside nothing that a child writes to. */
    void *memory = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t size = 0;

    if (memory == MAP_FAILED)
        return -ENOMEM;
    for (;;) {
        ssize_t n;

        if (poll(&watch, 1, cr_patience_ms(TRIAL_DEADLINE_MS)) != 1)
            return -ETIMEDOUT;
        n = read(fd, (char *)memory + size, room - size);
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        size += (size_t)n;
    }
    preload->ranges = memory;
    preload->range_count = size / sizeof(struct sbx_preload_range);
    return preload->range_count > 0 ? 0 : -ENODATA;
}

void sbx_preload_populate(const struct sbx_preload *preload)
{
    for (size_t i = 0; i < preload->range_count; i++)
        (void)syscall(SYS_madvise, preload->ranges[i].address, preload->ranges[i].size,
                      MADV_POPULATE_WRITE);
}
