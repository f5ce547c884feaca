/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/* The files of /docs and their sizes, in .rodata (pages.S). */
extern const char agt_page_html[];
extern const size_t agt_page_html_size;
extern const char agt_page_script[];
extern const size_t agt_page_script_size;
extern const char agt_page_style[];
extern const size_t agt_page_style_size;
