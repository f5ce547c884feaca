/* SPDX-License-Identifier: Apache-2.0 */
/* The files of /docs as they are, see pages.h. */
    .macro page name, file
    .global \name
    .global \name\()_end
\name:
    .incbin "\file"
\name\()_end:
    .byte 0
    .endm

    .section .rodata
    page agt_page_html, "page.html"
    page agt_page_script, "page.js"
    page agt_page_style, "page.css"
    .section .note.GNU-stack, "", %progbits
