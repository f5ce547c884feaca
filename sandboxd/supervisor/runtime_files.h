/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct cr_err;

/*
 * Reads every *.runtime file of the folder --runtimes-dir and refuses what is
 * wrong: in a file (sandboxd/runtimes/file.h), and a folder or a file that
 * somebody else than root could change. Returns a sealed bundle
 * (sandboxd/runtimes/bundle.h) for the children, which is the caller's, or a
 * negative errno with a text that names the file.
 */
int sbx_runtime_files_open(const char *path, struct cr_err *err);
