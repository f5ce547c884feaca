/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/backend/seccomp.h"

#include "common/auto.h"
#include "common/err.h"
#include "sandboxd/backend/bpf.h"
#include "sandboxd/backend/seccomp_arguments.h"
#include "sandboxd/backend/seccomp_policy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>

/*
 * libseccomp is not used here: a rule of its with arguments falls through to
 * the default action, which is ENOSYS, so that "allow this call but for these
 * arguments, which are EPERM" cannot be said in one filter.
 */
#define NUMBERS_MAX 512
#define FILTERS_MAX 16
#define CODE_MAX 1024
/* From this bit on numbers are those of x32, another ABI into the same kernel. */
#define X32_BIT UINT32_C(0x40000000)
#define NO_NUMBER UINT32_MAX /* syscall(-1): what a tracer writes to skip a call */
#define ANSWER_UNKNOWN (SECCOMP_RET_ERRNO | ENOSYS)
/* Above this many ranges a half of the tree may be too long for an 8-bit jump. */
#define NEAR_RANGES 64

/* Neighbouring numbers with the same answer. */
struct range {
    uint32_t first;
    uint32_t answer;
    const struct sbx_seccomp_filter *filter; /* NULL: `answer` */
};

struct compiler {
    struct range ranges[NUMBERS_MAX + 1];
    size_t range_count;
    struct sock_filter code[CODE_MAX];
    size_t size;

    struct {
        size_t at;
        const struct sbx_seccomp_filter *filter;
    } filters[FILTERS_MAX]; /* jumps to be filled in */

    size_t filter_count;
};

static void emit(struct compiler *compiler, struct sock_filter instruction)
{
    if (compiler->size < CODE_MAX)
        compiler->code[compiler->size] = instruction;
    compiler->size++; /* past the end: reported once, at the end */
}

static void emit_return(struct compiler *compiler, uint32_t answer)
{
    emit(compiler, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, answer));
}

static int sort_rules(const struct sbx_seccomp_rule *by_number[NUMBERS_MAX], struct cr_err *err)
{
    size_t count;
    const struct sbx_seccomp_rule *policy = sbx_seccomp_policy(&count);

    for (size_t i = 0; i < count; i++) {
        if (policy[i].number >= NUMBERS_MAX || by_number[policy[i].number])
            return cr_err_set(err, EINVAL, "system call %u is listed twice or unknown",
                              policy[i].number);
        by_number[policy[i].number] = &policy[i];
    }
    return 0;
}

static void find_ranges(struct compiler *compiler,
                        const struct sbx_seccomp_rule *const by_number[NUMBERS_MAX])
{
    for (uint32_t number = 0; number <= NUMBERS_MAX; number++) {
        const struct sbx_seccomp_rule *rule = number < NUMBERS_MAX ? by_number[number] : NULL;
        const struct range next = {.first = number,
                                   .answer = rule ? rule->answer : ANSWER_UNKNOWN,
                                   .filter = rule ? rule->filter : NULL};
        const struct range *last =
            compiler->range_count > 0 ? &compiler->ranges[compiler->range_count - 1] : NULL;

        if (!last || last->filter || next.filter || last->answer != next.answer)
            compiler->ranges[compiler->range_count++] = next;
    }
}

static int emit_leaf(struct compiler *compiler, const struct range *range)
{
    if (!range->filter) {
        emit_return(compiler, range->answer);
        return 0;
    }
    if (compiler->filter_count == FILTERS_MAX)
        return -ENOSPC;
    compiler->filters[compiler->filter_count].at = compiler->size;
    compiler->filters[compiler->filter_count++].filter = range->filter;
    emit(compiler, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 0));
    return 0;
}

/* A binary search over the ranges first … last: seven compares instead of hundreds. */
static int emit_tree(struct compiler *compiler, size_t first, size_t last)
{
    const size_t middle = first + (last - first + 1) / 2;
    const bool is_near = last - first < NEAR_RANGES;
    size_t jump;
    size_t distance;
    int r;

    if (first == last)
        return emit_leaf(compiler, &compiler->ranges[first]);
    jump = compiler->size;
    emit(compiler,
         (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, compiler->ranges[middle].first, 0,
                                      is_near ? 0 : 1));
    if (!is_near)
        emit(compiler, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 0));
    r = emit_tree(compiler, first, middle - 1);
    if (r < 0 || compiler->size > CODE_MAX)
        return r < 0 ? r : -ENOSPC;
    distance = compiler->size - jump - 1;
    if (is_near)
        compiler->code[jump].jt = (uint8_t)distance;
    else
        compiler->code[jump + 1].k = (uint32_t)(distance - 1);
    return emit_tree(compiler, middle, last);
}

static void emit_filters(struct compiler *compiler)
{
    for (size_t i = 0; i < compiler->filter_count; i++) {
        const size_t at = compiler->filters[i].at;
        const struct sbx_seccomp_filter *filter = compiler->filters[i].filter;

        if (at < CODE_MAX)
            compiler->code[at].k = (uint32_t)(compiler->size - at - 1);
        for (size_t j = 0; j < filter->size; j++)
            emit(compiler, filter->code[j]);
    }
}

static void emit_start(struct compiler *compiler)
{
    emit(compiler, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                                offsetof(struct seccomp_data, arch)));
    emit(compiler,
         (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SBX_BPF_ARCHITECTURE, 1, 0));
    emit_return(compiler, SECCOMP_RET_KILL_PROCESS); /* int 0x80 on x86_64 */
    emit(compiler,
         (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
    emit(compiler, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 3));
    emit(compiler, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NO_NUMBER, 1, 0));
    emit_return(compiler, SECCOMP_RET_KILL_PROCESS);
    emit_return(compiler, ANSWER_UNKNOWN);
}

static int compile(struct compiler *compiler, struct cr_err *err)
{
    const struct sbx_seccomp_rule *by_number[NUMBERS_MAX] = {NULL};
    int r = sort_rules(by_number, err);

    if (r < 0)
        return r;
    find_ranges(compiler, by_number);
    emit_start(compiler);
    r = emit_tree(compiler, 0, compiler->range_count - 1);
    emit_filters(compiler);
    if (r < 0 || compiler->size > CODE_MAX)
        return cr_err_set(err, ENOSPC, "the system call policy is larger than %d instructions",
                          CODE_MAX);
    return 0;
}

int sbx_seccomp_build(int *ret_fd, struct cr_err *err)
{
    CR_AUTO_CLOSE int fd = -1;
    struct compiler compiler = {0};
    size_t size;
    int r;

    r = compile(&compiler, err);
    if (r < 0)
        return r;
    size = compiler.size * sizeof(compiler.code[0]);
    fd = memfd_create("seccomp", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return cr_err_sys(err, errno, "create the seccomp memfd");
    if (pwrite(fd, compiler.code, size, 0) != (ssize_t)size)
        return cr_err_sys(err, errno, "write the seccomp memfd");
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
        return cr_err_sys(err, errno, "seal the seccomp memfd");
    *ret_fd = cr_take_fd(&fd);
    return 0;
}
