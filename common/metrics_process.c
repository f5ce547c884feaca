/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/metrics.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <sys/resource.h>

static double seconds(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static void write_gauge(struct cr_metrics *metrics, const char *name, const char *help,
                        uint64_t value)
{
    cr_metrics_family(metrics, name, "gauge", help);
    cr_metrics_count(metrics, NULL, value);
}

/* Entries of a folder of proc(5), without "." and ".."; -1 when it cannot be read. */
static long count_entries(const char *path)
{
    DIR *folder = opendir(path);
    const struct dirent *entry;
    long count = 0;

    if (!folder)
        return -1;
    while ((entry = readdir(folder)) != NULL) /* NOLINT(concurrency-mt-unsafe): a stream of ours */
        count += entry->d_name[0] != '.';
    (void)closedir(folder);
    return count;
}

static void write_memory(struct cr_metrics *metrics)
{
    CR_AUTO_CLOSE int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    char text[128];
    char *at = text;
    ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    uint64_t pages[2]; /* virtual, resident */

    if (size <= 0)
        return;
    text[size] = '\0';
    pages[0] = strtoull(at, &at, 10);
    pages[1] = strtoull(at, &at, 10);
    write_gauge(metrics, "process_virtual_memory_bytes", "Virtual memory size in bytes.",
                pages[0] * page);
    write_gauge(metrics, "process_resident_memory_bytes", "Resident memory size in bytes.",
                pages[1] * page);
}

static void write_files(struct cr_metrics *metrics)
{
    long open_files = count_entries("/proc/self/fd");
    struct rlimit limit;

    if (open_files >= 0) /* less the one that it was read by */
        write_gauge(metrics, "process_open_fds", "Number of open file descriptors.",
                    (uint64_t)(open_files > 0 ? open_files - 1 : 0));
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        write_gauge(metrics, "process_max_fds", "Maximum number of open file descriptors.",
                    limit.rlim_cur);
}

void cr_metrics_process(struct cr_metrics *metrics, int64_t started_ms)
{
    struct rusage usage = {0};
    long threads = count_entries("/proc/self/task");

    (void)getrusage(RUSAGE_SELF, &usage);
    cr_metrics_family(metrics, "process_cpu_seconds_total", "counter",
                      "Total user and system CPU time spent in seconds.");
    cr_metrics_value(metrics, NULL, seconds(usage.ru_utime) + seconds(usage.ru_stime));
    cr_metrics_family(metrics, "process_start_time_seconds", "gauge",
                      "Start time of the process since unix epoch in seconds.");
    cr_metrics_value(metrics, NULL, (double)started_ms / 1e3);
    write_memory(metrics);
    write_files(metrics);
    if (threads >= 0)
        write_gauge(metrics, "process_threads", "Number of threads.", (uint64_t)threads);
}
