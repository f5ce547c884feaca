/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_int total;

static void *add(void *argument)
{
    for (int i = 0; i < 10000; i++)
        total += *(int *)argument;
    return NULL;
}

int main(void)
{
    pthread_t threads[8];
    int numbers[8];

    for (int i = 0; i < 8; i++) {
        numbers[i] = i;
        if (pthread_create(&threads[i], NULL, add, &numbers[i]) != 0)
            return 1;
    }
    for (int i = 0; i < 8; i++)
        (void)pthread_join(threads[i], NULL);
    printf("%d\n", total);
    return 0;
}
