/* SPDX-License-Identifier: Apache-2.0 */
    .section .rodata
    .global crisol_descriptor_set
    .global crisol_descriptor_set_end
    .balign 8
crisol_descriptor_set:
    .incbin "descriptor_set.pb"
crisol_descriptor_set_end:
    .byte 0
    .section .note.GNU-stack, "", %progbits
