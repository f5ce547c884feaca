/* SPDX-License-Identifier: Apache-2.0 */
#include <fenv.h>
#include <math.h>
#include <stdio.h>

int main(void)
{
    volatile double tiny = 0x1p-1074;
    volatile long double third = 1.0L / 3;
    volatile float big = 3e38F;

    printf("%a %La %f %d\n", tiny / 2, third, (double)(big * 10), isnan(sqrt(-tiny)) != 0);
    fesetround(FE_UPWARD);
    printf("%.20f\n", (double)(1.0F / (volatile float){3}));
    return 0;
}
