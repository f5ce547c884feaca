/* SPDX-License-Identifier: Apache-2.0 */
/* The file as a C string, see image.c. */
    .section .rodata
    .global sbx_dockerfile
sbx_dockerfile:
    .incbin "Dockerfile.sandbox"
    .byte 0
    .section .note.GNU-stack, "", %progbits
