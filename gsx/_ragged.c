/* Gather runs of rows; used by ragged.py. */

#include "_native.h"

static int copy_runs(const char *values, int64_t rows, int64_t width, const int64_t *starts,
                     const int64_t *counts, Py_ssize_t runs, char *out, int64_t remaining)
{
    for (Py_ssize_t i = 0; i < runs; i++) {
        int64_t start = starts[i], count = counts[i];
        if (start < 0 || count < 0 || count > rows || start > rows - count || count > remaining)
            return 0;
        memcpy(out, values + start * width, (size_t)(count * width));
        out += count * width;
        remaining -= count;
    }
    return remaining == 0;
}

static PyObject *gather(PyObject *self, PyObject *args)
{
    enum { VALUES, STARTS, COUNTS, OUT, ALL };
    Py_buffer b[ALL];
    Py_ssize_t width;
    int done = 0;
    if (!PyArg_ParseTuple(args, "y*ny*y*w*", b + VALUES, &width, b + STARTS, b + COUNTS, b + OUT))
        return NULL;
    if (width > 0 && item_sizes_match(b + STARTS, "88") && b[STARTS].len == b[COUNTS].len &&
        b[OUT].len % width == 0) {
        Py_BEGIN_ALLOW_THREADS
        done = copy_runs(b[VALUES].buf, b[VALUES].len / width, width, b[STARTS].buf, b[COUNTS].buf,
                         b[STARTS].len / 8, b[OUT].buf, b[OUT].len / width);
        Py_END_ALLOW_THREADS
    }
    release(b, ALL);
    if (!done) return value_error("runs exceed the rows, or do not fill the output");
    Py_RETURN_NONE;
}

static PyMethodDef METHODS[] = {
    {"gather", gather, METH_VARARGS, "gather(values, width, starts, counts, out)"},
    {NULL, NULL, 0, NULL},
};

MODULE(_ragged, "Gather runs of rows.", METHODS)
