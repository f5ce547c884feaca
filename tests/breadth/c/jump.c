/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>

static sigjmp_buf back;

static void on_signal(int number)
{
    siglongjmp(back, number);
}

int main(void)
{
    int number = 0;

    (void)signal(SIGSEGV, on_signal);
    for (int i = 0; i < 3; i++) {
        number = sigsetjmp(back, 1);
        if (number == 0)
            *(volatile int *)8 = i;
        printf("%d\n", number);
    }
    return 0;
}
