/* Weisfeiler-Lehman hashes: the native loops of wl_hash.py. */

#include "_native.h"

#define EDGE UINT64_C(0x9E3779B97F4A7C15)
#define OWN UINT64_C(0xD6E8FEB86659FD93)

INLINE uint64_t mix(uint64_t word)
{
    word ^= word >> 30;
    word *= UINT64_C(0xBF58476D1CE4E5B9);
    word ^= word >> 27;
    word *= UINT64_C(0x94D049BB133111EB);
    return word ^ word >> 31;
}

static void hash_rows(const double *values, Py_ssize_t rows, Py_ssize_t width, uint64_t *out)
{
    for (Py_ssize_t row = 0; row < rows; row++) {
        uint64_t found = 1;
        for (Py_ssize_t i = 0; i < width; i++) {
            double value = values[row * width + i] + 0.0; /* -0.0 becomes 0.0 */
            uint64_t bits;
            memcpy(&bits, &value, sizeof bits);
            found = mix(found * OWN + bits);
        }
        out[row] = found;
    }
}

static PyObject *row_hashes(PyObject *self, PyObject *args)
{
    enum { VALUES, OUT, ALL };
    Py_buffer b[ALL];
    if (!PyArg_ParseTuple(args, "y*w*", b + VALUES, b + OUT)) return NULL;
    const Py_ssize_t rows = b[OUT].len / 8;
    const int fits = item_sizes_match(b, "88") &&
                     (rows ? b[VALUES].len % b[OUT].len == 0 : b[VALUES].len == 0);
    if (fits && rows) {
        Py_BEGIN_ALLOW_THREADS
        hash_rows(b[VALUES].buf, rows, b[VALUES].len / b[OUT].len, b[OUT].buf);
        Py_END_ALLOW_THREADS
    }
    release(b, ALL);
    if (!fits) return value_error("the number of hashes differs from the number of rows");
    Py_RETURN_NONE;
}

struct graphs {
    const uint64_t *color, *attr; /* attr is NULL without edge attributes */
    const int32_t *src, *dst;
    const int64_t *node_ptr, *edge_ptr;
    Py_ssize_t count;
    int rounds;
};

static int64_t largest(const struct graphs *g)
{
    int64_t found = 0;
    for (Py_ssize_t i = 0; i < g->count; i++) {
        int64_t nodes = g->node_ptr[i + 1] - g->node_ptr[i];
        found = nodes > found ? nodes : found;
    }
    return found;
}

/* Return whether all edges of a graph join existing nodes; as unsigned, -1 is out of range. */
VARIANTS static int joined(const int32_t *src, const int32_t *dst, int64_t edges, int64_t nodes)
{
    uint32_t last = 0;
    for (int64_t i = 0; i < edges; i++) {
        last = (uint32_t)src[i] > last ? (uint32_t)src[i] : last;
        last = (uint32_t)dst[i] > last ? (uint32_t)dst[i] : last;
    }
    return edges == 0 || last < nodes;
}

static int hash_graphs(const struct graphs *g, uint64_t *room, int64_t most, uint64_t *out)
{
    uint64_t *color = room, *near = room + most, *sum = room + 2 * most;
    for (Py_ssize_t graph = 0; graph < g->count; graph++) {
        const int64_t first = g->edge_ptr[graph], edges = g->edge_ptr[graph + 1] - first;
        const int64_t nodes = g->node_ptr[graph + 1] - g->node_ptr[graph];
        const int32_t *src = g->src + first, *dst = g->dst + first;
        uint64_t total = 0;
        if (!joined(src, dst, edges, nodes)) return 0;
        memcpy(color, g->color + g->node_ptr[graph], (size_t)nodes * sizeof *color);
        for (int round = 0; round < g->rounds; round++) {
            for (int64_t i = 0; i < nodes; i++) near[i] = mix(color[i] ^ EDGE), sum[i] = 0;
            if (g->attr == NULL)
                for (int64_t i = 0; i < edges; i++) sum[src[i]] += near[dst[i]];
            else
                for (int64_t i = 0; i < edges; i++)
                    sum[src[i]] += mix(color[dst[i]] ^ g->attr[first + i]);
            for (int64_t i = 0; i < nodes; i++) color[i] = mix(color[i] * OWN + sum[i]);
        }
        for (int64_t i = 0; i < nodes; i++) total += mix(color[i]);
        out[graph] = mix(total + (uint64_t)nodes);
    }
    return 1;
}

static PyObject *graph_hashes(PyObject *self, PyObject *args)
{
    enum { COLOR, ATTR, SRC, DST, NODE_PTR, EDGE_PTR, OUT, ALL };
    Py_buffer b[ALL];
    int rounds, fits = 0, lost = 0;
    if (!PyArg_ParseTuple(args, "y*y*y*y*y*y*iw*", b + COLOR, b + ATTR, b + SRC, b + DST,
                          b + NODE_PTR, b + EDGE_PTR, &rounds, b + OUT))
        return NULL;
    struct graphs g = {.color = b[COLOR].buf, .attr = b[ATTR].len ? b[ATTR].buf : NULL,
                       .src = b[SRC].buf, .dst = b[DST].buf, .node_ptr = b[NODE_PTR].buf,
                       .edge_ptr = b[EDGE_PTR].buf, .count = b[OUT].len / 8, .rounds = rounds};
    if (item_sizes_match(b, "8844888") && b[SRC].len == b[DST].len &&
        (b[ATTR].len == 0 || b[ATTR].len == 2 * b[SRC].len) &&
        b[NODE_PTR].len == 8 * (g.count + 1) && b[EDGE_PTR].len == b[NODE_PTR].len) {
        Py_BEGIN_ALLOW_THREADS
        fits = pointers_valid(g.node_ptr, g.count, b[COLOR].len / 8) &&
               pointers_valid(g.edge_ptr, g.count, b[SRC].len / 4);
        if (fits) {
            const int64_t most = largest(&g);
            uint64_t *room = malloc(((size_t)most * 3 + 1) * sizeof *room);
            lost = room == NULL;
            if (!lost) fits = hash_graphs(&g, room, most, b[OUT].buf);
            free(room);
        }
        Py_END_ALLOW_THREADS
    }
    release(b, ALL);
    if (lost) return PyErr_NoMemory();
    if (!fits) return value_error("nodes, edges and pointers are inconsistent");
    Py_RETURN_NONE;
}

static PyMethodDef METHODS[] = {
    {"row_hashes", row_hashes, METH_VARARGS, "row_hashes(values, out)"},
    {"graph_hashes", graph_hashes, METH_VARARGS,
     "graph_hashes(color, attr, src, dst, node_ptr, edge_ptr, rounds, out)"},
    {NULL, NULL, 0, NULL},
};

MODULE(_wl_hash, "Weisfeiler-Lehman hashes of graphs.", METHODS)
