/* SPDX-License-Identifier: Apache-2.0 */
/* The files of /docs as they are, see pages.h. */
    .macro page name, file
    .global \name
    .global \name\()_size
\name:
    .incbin "\file"
1:
    .balign 8
\name\()_size:
    .quad 1b - \name
    .endm

    .section .rodata
    page agt_page_html, "page.html"
    page agt_page_script, "page.js"
    page agt_page_style, "page.css"
    .section .note.GNU-stack, "", %progbits
