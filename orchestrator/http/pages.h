/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The files of /docs, in .rodata (pages.S). `_end` is behind the last byte. */
extern const char agt_page_html[];
extern const char agt_page_html_end[];
extern const char agt_page_script[];
extern const char agt_page_script_end[];
extern const char agt_page_style[];
extern const char agt_page_style_end[];
