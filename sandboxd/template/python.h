/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The interpreter, by its stable interface only: what is built against the
 * headers of one version runs in every later one.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03080000

#include <Python.h>

/* Public since 3.8, but in the headers only without Py_LIMITED_API. */
int PySys_AddAuditHook(int (*hook)(const char *event, PyObject *args, void *user), void *user);
