/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the runtimes that are built in, one behind the other; see table.c. */
    .section .rodata
    .macro shipped name file
    .global \name
    .hidden \name
    .global \name\()_end
    .hidden \name\()_end
\name:
    .incbin "\file"
\name\()_end:
    .endm
    shipped sbx_shipped_browser, "browser.runtime"
    shipped sbx_shipped_c, "c.runtime"
    shipped sbx_shipped_cpp, "c++.runtime"
    shipped sbx_shipped_go, "go.runtime"
    shipped sbx_shipped_java, "java.runtime"
    shipped sbx_shipped_node, "node.runtime"
    shipped sbx_shipped_pytest, "pytest.runtime"
    shipped sbx_shipped_python, "python.runtime"
    shipped sbx_shipped_python_data, "python-data.runtime"
    shipped sbx_shipped_rust, "rust.runtime"
    shipped sbx_shipped_shell, "shell.runtime"
    .global sbx_cells_python
    .hidden sbx_cells_python
sbx_cells_python:
    .incbin "cells.py"
    .byte 0
    .section .note.GNU-stack, "", %progbits
