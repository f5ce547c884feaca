/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

static unsigned ackermann(unsigned m, unsigned n)
{
    if (m == 0)
        return n + 1;
    return ackermann(m - 1, n == 0 ? 1 : ackermann(m, n - 1));
}

int main(void)
{
    printf("%u\n", ackermann(2, 2000) + ackermann(3, 7));
    return 0;
}
