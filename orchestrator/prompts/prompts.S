/* SPDX-License-Identifier: Apache-2.0 */
/* Each file as a C string, see prompts.h. */
    .macro prompt name, file
    .global \name
\name:
    .incbin "\file"
    .byte 0
    .endm

    .section .rodata
    prompt agt_prompt_planner_file, "planner.txt"
    prompt agt_prompt_generator_file, "generator.txt"
    prompt agt_prompt_repair_file, "repair.txt"
    .section .note.GNU-stack, "", %progbits
