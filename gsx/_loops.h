/* What the loops in C have in common: buffers that are checked, and words for compilers.

   A file in C stands beside the Python file whose loops it holds. Each has a twin there, in NumPy,
   that gives the same bits: no sum is reordered and no product fused with one. The twin works where
   gsx was installed without a compiler, and tests hold both against each other.

   Arrays come as contiguous buffers. Lengths and pointers are checked before anything is read, so
   no input reaches beyond its buffers. The interpreter is free meanwhile. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

/* The processor decides when the module is loaded which variant of a loop it runs. */
#if defined(__GNUC__) && defined(__x86_64__) && defined(__GLIBC__)
#define VARIANTS __attribute__((target_clones("avx2", "default")))
#else
#define VARIANTS
#endif
#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
#define PREFETCH(place) __builtin_prefetch(place)
#else
#define INLINE static inline
#define PREFETCH(place) ((void)(place))
#endif

static inline PyObject *refused(const char *what)
{
    PyErr_SetString(PyExc_ValueError, what);
    return NULL;
}

static inline void release(Py_buffer *buffers, int count)
{
    while (count--) PyBuffer_Release(buffers + count);
}

/* Say whether buffers hold items of the sizes that a text lists: "48" is a float, then an int64. */
static inline int hold(const Py_buffer *buffers, const char *sizes)
{
    for (; *sizes; sizes++, buffers++)
        if (buffers->itemsize != *sizes - '0') return 0;
    return 1;
}

/* Say whether pointers [runs + 1] start at 0, never go back, and end at `rows`. */
static inline int sound(const int64_t *ptr, Py_ssize_t runs, int64_t rows)
{
    if (runs < 0 || ptr[0] != 0 || ptr[runs] != rows) return 0;
    for (Py_ssize_t i = 0; i < runs; i++)
        if (ptr[i + 1] < ptr[i]) return 0;
    return 1;
}

/* Say whether there is a row for every number. */
static inline int inside(const int64_t *numbers, Py_ssize_t count, int64_t rows)
{
    int found = 1;
    for (Py_ssize_t i = 0; i < count; i++) found &= numbers[i] >= 0 && numbers[i] < rows;
    return found;
}

/* Say whether two buffers share no memory. */
static inline int apart(const Py_buffer *one, const Py_buffer *other)
{
    const uintptr_t first = (uintptr_t)one->buf, second = (uintptr_t)other->buf;
    return first + (size_t)one->len <= second || second + (size_t)other->len <= first;
}

/* The one function a module exports, which names its methods. */
#define MODULE(name, about, methods)                                                               \
    static PyModuleDef_Slot name##_slots[] = {{0, NULL}};                                          \
    static struct PyModuleDef name##_module = {                                                    \
        PyModuleDef_HEAD_INIT, .m_name = #name, .m_doc = about, .m_methods = methods,              \
        .m_slots = name##_slots,                                                                   \
    };                                                                                             \
    PyMODINIT_FUNC PyInit_##name(void) { return PyModuleDef_Init(&name##_module); }
