/* Shared code of the C extensions: buffer checks and compiler macros.

   Each C file accelerates the Python file next to it. Every function has a NumPy twin there with
   bit-identical results: no sum is reordered and no multiply-add is fused. The twin runs if gsx was
   installed without a compiler. Tests compare both.

   Arrays are passed as contiguous buffers. Lengths and pointers are checked before any read, so no
   input can cause an access outside its buffers. The GIL is released during the loops. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

/* Compile a function for several instruction sets; the loader selects one for the processor. */
#if defined(__GNUC__) && defined(__x86_64__) && defined(__GLIBC__)
#define VARIANTS __attribute__((target_clones("avx2", "default")))
#else
#define VARIANTS
#endif
#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#define PREFETCH(address) __builtin_prefetch(address)
#else
#define INLINE static inline
#define PREFETCH(address) ((void)(address))
#endif

/* Set a ValueError and return NULL. */
static inline PyObject *value_error(const char *message)
{
    PyErr_SetString(PyExc_ValueError, message);
    return NULL;
}

static inline void release(Py_buffer *buffers, int count)
{
    while (count--) PyBuffer_Release(buffers + count);
}

/* Return whether buffers have the item sizes in `sizes`: "48" is a float32, then an int64. */
static inline int item_sizes_match(const Py_buffer *buffers, const char *sizes)
{
    for (; *sizes; sizes++, buffers++)
        if (buffers->itemsize != *sizes - '0') return 0;
    return 1;
}

/* Return whether pointers [runs + 1] start at 0, never decrease, and end at `rows`. */
static inline int pointers_valid(const int64_t *ptr, Py_ssize_t runs, int64_t rows)
{
    if (runs < 0 || ptr[0] != 0 || ptr[runs] != rows) return 0;
    for (Py_ssize_t i = 0; i < runs; i++)
        if (ptr[i + 1] < ptr[i]) return 0;
    return 1;
}

/* Return whether all indices are in [0, rows). */
static inline int indices_in_range(const int64_t *indices, Py_ssize_t count, int64_t rows)
{
    int valid = 1;
    for (Py_ssize_t i = 0; i < count; i++) valid &= indices[i] >= 0 && indices[i] < rows;
    return valid;
}

/* Return whether two buffers share no memory. */
static inline int disjoint(const Py_buffer *one, const Py_buffer *other)
{
    const uintptr_t first = (uintptr_t)one->buf, second = (uintptr_t)other->buf;
    return first + (size_t)one->len <= second || second + (size_t)other->len <= first;
}

/* Define the init function of a module with the given docstring and methods. */
#define MODULE(name, doc, methods)                                                                 \
    static PyModuleDef_Slot name##_slots[] = {{0, NULL}};                                          \
    static struct PyModuleDef name##_module = {                                                    \
        PyModuleDef_HEAD_INIT, .m_name = #name, .m_doc = doc, .m_methods = methods,                \
        .m_slots = name##_slots,                                                                   \
    };                                                                                             \
    PyMODINIT_FUNC PyInit_##name(void) { return PyModuleDef_Init(&name##_module); }
