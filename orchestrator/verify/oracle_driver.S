/* SPDX-License-Identifier: Apache-2.0 */
/* The driver as a C string, see oracle.h. */
    .section .rodata
    .global agt_oracle_driver
agt_oracle_driver:
    .incbin "oracle_driver.py"
    .byte 0
    .section .note.GNU-stack, "", %progbits
