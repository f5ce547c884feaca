/* SPDX-License-Identifier: Apache-2.0 */
int main(int argc, char **argv)
{
    volatile int zero = argc - 1;

    (void)argv;
    return 7 / zero;
}
