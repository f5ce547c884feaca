/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>

struct pair {
    char small;
    double large;
};

static double sum(int count, ...)
{
    double total = 0;
    va_list args;

    va_start(args, count);
    for (int i = 0; i < count; i++) {
        struct pair pair = va_arg(args, struct pair);

        total += pair.large * pair.small;
    }
    va_end(args);
    return total;
}

int main(void)
{
    struct pair pairs[3] = {{1, 0.5}, {2, 0.25}, {-3, 1e10}};

    printf("%.17g\n", sum(3, pairs[0], pairs[1], pairs[2]));
    return 0;
}
