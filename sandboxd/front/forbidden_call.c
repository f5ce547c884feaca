/* SPDX-License-Identifier: Apache-2.0 */
#include "sandboxd/front/forbidden_call.h"

#include "common/auto.h"
#include "sandboxd/wire/boxctl.h"

#include <inttypes.h>
#include <stdio.h>

#include <sys/syscall.h>

#define CALL(name)                                                                                 \
    {                                                                                              \
        __NR_##name, #name                                                                         \
    }

/* Those of the policy that end a run; a test compares the two. */
static const struct {
    uint32_t number;
    const char *name;
} calls[] = {
    CALL(ptrace),
    CALL(process_vm_writev),
    CALL(pivot_root),
    CALL(open_by_handle_at),
    CALL(bpf),
    CALL(kexec_load),
    CALL(init_module),
    CALL(finit_module),
    CALL(delete_module),
    CALL(reboot),
#ifdef __NR_kexec_file_load
    CALL(kexec_file_load),
#endif
#ifdef __x86_64__
    CALL(iopl),
    CALL(ioperm),
#endif
};

void sbx_forbidden_call_name(uint32_t call, char *text, size_t size)
{
    if (call == SBX_CALL_OTHER_DOOR) {
        (void)snprintf(text, size, "a call of another ABI (32-bit or x32)");
        return;
    }
    if (call == SBX_CALL_UNKNOWN) {
        (void)snprintf(text, size, "a call that a signal broke off");
        return;
    }
    for (size_t i = 0; i < CR_ARRAY_SIZE(calls); i++) {
        if (calls[i].number == call) {
            (void)snprintf(text, size, "%s", calls[i].name);
            return;
        }
    }
    (void)snprintf(text, size, "system call %" PRIu32, call);
}
