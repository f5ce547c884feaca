/* SPDX-License-Identifier: Apache-2.0 */
/* The script as a C string, see boot.c. */
    .section .rodata
    .global sbx_preload_script
    .hidden sbx_preload_script
sbx_preload_script:
    .incbin "boot.py"
    .byte 0
    .section .note.GNU-stack, "", %progbits
