/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

struct bits {
    unsigned low : 3;
    signed middle : 7;
    unsigned long long wide : 41;
};

int main(void)
{
    struct bits bits = {.low = 7, .middle = -64, .wide = 1ULL << 40};

    bits.low++;
    bits.middle--;
    bits.wide += 1ULL << 40;
    printf("%u %d %llu %zu\n", bits.low, bits.middle, (unsigned long long)bits.wide, sizeof(bits));
    return bits.middle == 63 ? 41 : 0;
}
