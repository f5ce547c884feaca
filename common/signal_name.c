/* SPDX-License-Identifier: Apache-2.0 */
#include "common/signal_name.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

/* The upper half is counted from the last one, which is where programs count from. */
static void name_real_time(int number, char text[static CR_SIGNAL_NAME_SIZE])
{
    int above = number - SIGRTMIN;
    int below = SIGRTMAX - number;

    if (above == 0 || below == 0)
        (void)snprintf(text, CR_SIGNAL_NAME_SIZE, "SIGRTM%s", above == 0 ? "IN" : "AX");
    else if (above <= (SIGRTMAX - SIGRTMIN) / 2)
        (void)snprintf(text, CR_SIGNAL_NAME_SIZE, "SIGRTMIN+%d", above);
    else
        (void)snprintf(text, CR_SIGNAL_NAME_SIZE, "SIGRTMAX-%d", below);
}

const char *cr_signal_name(int number, char text[static CR_SIGNAL_NAME_SIZE])
{
    const char *name = sigabbrev_np(number);

    if (name)
        (void)snprintf(text, CR_SIGNAL_NAME_SIZE, "SIG%s", name);
    else if (number >= SIGRTMIN && number <= SIGRTMAX)
        name_real_time(number, text);
    else
        (void)snprintf(text, CR_SIGNAL_NAME_SIZE, "SIG%d", number);
    return text;
}
