/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "sandboxd/template/preload.h"
#include "sandboxd/template/python.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/stat.h>
#include <sys/sysmacros.h>

extern const char sbx_preload_script[];

/* serve() of boot.py; `self` is a capsule with the state. */
static PyObject *serve(PyObject *self, PyObject *arguments)
{
    struct sbx_preload *preload = PyCapsule_GetPointer(self, NULL);

    (void)arguments;
    if (!preload || sbx_preload_serve(preload) == SBX_PRELOAD_FAILED ||
        sbx_preload_add_args(preload) < 0)
        return NULL;
    return PyBool_FromLong(preload->is_trial);
}

static PyMethodDef serve_method = {
    .ml_name = "serve", .ml_meth = serve, .ml_flags = METH_NOARGS, .ml_doc = NULL};

/* Runs the script; returns its names, or NULL with an exception. */
static PyObject *run_script(struct sbx_preload *preload)
{
    PyObject *names = PyDict_New();
    PyObject *code = Py_CompileString(sbx_preload_script, "<template>", Py_file_input);
    PyObject *state = PyCapsule_New(preload, NULL, NULL);
    PyObject *function = state ? PyCFunction_New(&serve_method, state) : NULL;
    PyObject *builtins = PyImport_ImportModule("builtins");
    PyObject *result = NULL;

    if (names && code && function && builtins &&
        PyDict_SetItemString(names, "__builtins__", builtins) == 0 &&
        PyDict_SetItemString(names, "serve", function) == 0)
        result = PyEval_EvalCode(code, names, names);
    Py_XDECREF(builtins);
    Py_XDECREF(function);
    Py_XDECREF(state);
    Py_XDECREF(code);
    if (!result)
        Py_CLEAR(names);
    Py_XDECREF(result);
    return names;
}

/* Calls a function of the script without arguments. Returns 0, or -1 with an exception. */
static int call(PyObject *names, const char *name)
{
    PyObject *function = PyDict_GetItemString(names, name);
    PyObject *result = function ? PyObject_CallObject(function, NULL) : NULL;

    Py_XDECREF(result);
    return result ? 0 : -1;
}

/* What `python3 -m pytest` does, from here: its frames are all that tests see. */
static int run_module(void)
{
    PyObject *runpy = PyImport_ImportModule("runpy");
    PyObject *result =
        runpy ? PyObject_CallMethod(runpy, "_run_module_as_main", "sO", "pytest", Py_True) : NULL;

    Py_XDECREF(runpy);
    Py_XDECREF(result);
    return result ? 0 : -1;
}

/* Calls module.name(); an exception of it is printed, as at the end of an interpreter. */
static void call_at_end(PyObject *module, const char *name)
{
    PyObject *result;

    if (!module)
        return;
    Py_INCREF(module); /* what is called may drop it */
    result = PyObject_CallMethod(module, name, NULL);
    if (!result)
        PyErr_WriteUnraisable(module);
    Py_XDECREF(result);
    Py_DECREF(module);
}

/* As Py_FinalizeEx() finds them: what goes by the name of threading by then, and atexit itself,
 * which the script holds. */
static void run_exit_functions(PyObject *names)
{
    PyObject *modules = PyImport_GetModuleDict(); /* borrowed, as what is in it */

    call_at_end(PyDict_GetItemString(modules, "threading"), "_shutdown");
    call_at_end(PyDict_GetItemString(names, "atexit"), "_run_exitfuncs");
}

static bool flush(const char *name)
{
    PyObject *file = PySys_GetObject(name); /* borrowed */
    PyObject *result = file ? PyObject_CallMethod(file, "flush", NULL) : NULL;

    if (!result)
        PyErr_Clear();
    Py_XDECREF(result);
    return result != NULL;
}

static const struct dirent *next_entry(DIR *folder)
{
    return readdir(folder); // NOLINT(concurrency-mt-unsafe): a stream of one thread
}

/* An open file may hold text that is written when its object goes. */
static bool has_open_files(void)
{
    DIR *folder = opendir("/proc/self/fd");
    bool is_found = !folder;

    if (!folder)
        return true;
    for (const struct dirent *entry = next_entry(folder); entry; entry = next_entry(folder)) {
        long fd = strtol(entry->d_name, NULL, 10);
        struct stat stat;

        if (fd > 2 && fd != dirfd(folder) && fstat((int)fd, &stat) == 0 &&
            !(S_ISCHR(stat.st_mode) && stat.st_rdev == makedev(1, 3)))
            is_found = true;
    }
    (void)closedir(folder);
    return is_found;
}

/* Each may hold text, and only the one that counts now is flushed. */
static bool is_stream_replaced(const char *name, const char *original)
{
    return PySys_GetObject(name) != PySys_GetObject(original);
}

/* Everything that holds text by then, and is no destructor, is empty. */
static bool flush_all(void)
{
    if (is_stream_replaced("stdout", "__stdout__") || is_stream_replaced("stderr", "__stderr__") ||
        !flush("stdout") || !flush("stderr"))
        return false;
    (void)fflush(NULL); /* of the libc: what exit(3) does, for code that is not Python */
    return true;
}

/* The exit code of SystemExit, or -1: leave it to the interpreter. Clears the exception then. */
static int take_exit_code(void)
{
    PyObject *type = NULL;
    PyObject *value = NULL;
    PyObject *trace = NULL;
    PyObject *code = NULL;
    long number = -1;

    if (!PyErr_ExceptionMatches(PyExc_SystemExit))
        return -1;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    code = value ? PyObject_GetAttrString(value, "code") : NULL;
    if (code && PyLong_Check(code))
        number = PyLong_AsLong(code) & 0xff;
    Py_XDECREF(code);
    PyErr_Clear();
    PyErr_Restore(type, value, trace);
    return (int)number;
}

/*
 * The end of pytest. The interpreter's own end takes longer than a small test:
 * every object is visited, and so every page copied. It is left out where
 * nothing can come of it. Returns when it cannot be left out.
 */
static int finish(const struct sbx_preload *preload, PyObject *names)
{
    PyObject *natural_end = PyDict_GetItemString(names, "natural_end");
    int code = take_exit_code();

    if (!preload->is_child) {
        if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_SystemExit))
            PyErr_Print(); /* the last words */
        sbx_preload_fail("come to the collection", 0);
    }
    if (code >= 0 && natural_end == Py_False) {
        PyObject *type = NULL;
        PyObject *value = NULL;
        PyObject *trace = NULL;

        PyErr_Fetch(&type, &value, &trace);
        run_exit_functions(names);
        if ((preload->is_trial || !has_open_files()) && flush_all()) {
            sbx_preload_report_ranges(preload);
            _exit(code);
        }
        PyErr_Restore(type, value, trace);
    }
    if (!PyErr_Occurred())
        PyErr_SetNone(PyExc_SystemExit);
    return -1; /* the exception ends the interpreter as pytest's own would */
}

static int add_to(const char *name, const struct sbx_preload *preload)
{
    PyObject *list = PySys_GetObject(name); /* borrowed */

    for (size_t i = 0; list && i < preload->extra_count; i++) {
        PyObject *text = PyUnicode_DecodeFSDefault(preload->extra_args[i]);
        int r = text ? PyList_Append(list, text) : -1;

        Py_XDECREF(text);
        if (r < 0)
            return -1;
    }
    return 0;
}

int sbx_preload_add_args(const struct sbx_preload *preload)
{
    int r = add_to("argv", preload);

    return r == 0 ? add_to("orig_argv", preload) : r;
}

int sbx_preload_run_pytest(struct sbx_preload *preload)
{
    bool is_deep = preload->kind == SBX_TEMPLATE_PYTEST;
    PyObject *names = run_script(preload);

    if (!names)
        return -1;
    if (call(names, "warm") < 0 || call(names, is_deep ? "install" : "serve_here") < 0) {
        Py_DECREF(names);
        return -1;
    }
    (void)run_module();
    return finish(preload, names); /* `names` is needed until the process ends */
}
