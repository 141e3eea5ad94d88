/* Feature extrapolation and wrap-around: the loops of feature_extrapolation.py. */

#include <math.h>

#include "_native.h"

enum kind { UNIT, INTERVAL, GRID, MIRROR, MIRROR_GRID };

/* Rows with few features are processed together, enough to fill the vector registers. */
#define TOGETHER 8
/* Partners are at random addresses: each is prefetched this many runs ahead. */
#define AHEAD 8

struct move {
    const float *own, *partners;
    const int64_t *partner, *ptr; /* per run: row of its partner, first of its own rows */
    const double *strength;
    Py_ssize_t runs, width, size; /* size: values processed together */
    double *theirs, *low, *high, *step, *length; /* per value: its feature, repeated for all rows */
    float *out;
    char *same; /* per run: whether all values are unchanged */
};

INLINE double clipped(double value, double low, double high)
{
    value = value < low ? low : value;
    return value > high ? high : value;
}

INLINE double brought_back(enum kind kind, double value, double low, double high, double step,
                           double length)
{
    double place = value - low;
    if (kind == UNIT) return value - (floor(value) + (value == 1.0 ? -1.0 : 0.0));
    if (kind == GRID || kind == MIRROR_GRID) place = rint(place / step);
    place -= floor(place / length) * length;
    if (kind == MIRROR || kind == MIRROR_GRID)
        place = length - place < place ? length - place : place;
    if (kind == GRID || kind == MIRROR_GRID) return clipped(place * step + low, low, high);
    place = clipped(place + low, low, high);
    return value < low || value > high ? place : value;
}

/* Extrapolate some values of a run; return whether any of them changed. */
INLINE int move_some(const struct move *m, enum kind kind, double strength, Py_ssize_t at,
                     Py_ssize_t size)
{
    const double *restrict theirs = m->theirs, *restrict low = m->low, *restrict high = m->high,
                 *restrict step = m->step, *restrict length = m->length;
    const float *restrict own = m->own + at;
    float *restrict out = m->out + at;
    int changed = 0;
    for (Py_ssize_t i = 0; i < size; i++) {
        const double value = own[i], moved = (value - theirs[i]) * strength + value;
        const float back = (float)brought_back(kind, moved, low[i], high[i], step[i], length[i]);
        changed |= back != own[i];
        out[i] = back;
    }
    return changed;
}

INLINE void move_runs(const struct move *m, enum kind kind, Py_ssize_t width, Py_ssize_t size)
{
    for (Py_ssize_t run = 0; run < m->runs; run++) {
        const double strength = m->strength[run];
        Py_ssize_t at = m->ptr[run] * width;
        const Py_ssize_t end = m->ptr[run + 1] * width;
        const float *partner = m->partners + m->partner[run] * width;
        int changed = 0;
        if (run + AHEAD < m->runs) PREFETCH(m->partners + m->partner[run + AHEAD] * width);
        for (Py_ssize_t i = 0; i < size; i += width)
            for (Py_ssize_t j = 0; j < width; j++) m->theirs[i + j] = partner[j];
        if (end - at < size) {
            changed = move_some(m, kind, strength, at, end - at);
        } else {
            for (; at + size <= end; at += size) changed |= move_some(m, kind, strength, at, size);
            /* The last rows, and some processed before: their result is the same. */
            if (at < end) changed |= move_some(m, kind, strength, end - size, size);
        }
        m->same[run] &= !changed; /* without a branch, which would be mispredicted */
    }
}

/* Loops of constant length are optimized better. */
INLINE void move_rows(const struct move *m, enum kind kind)
{
    switch (m->width) {
    case 1: move_runs(m, kind, 1, TOGETHER); break;
    case 2: move_runs(m, kind, 2, 2 * TOGETHER); break;
    case 3: move_runs(m, kind, 3, 3 * TOGETHER); break;
    case 4: move_runs(m, kind, 4, 4 * TOGETHER); break;
    default: move_runs(m, kind, m->width, m->size);
    }
}

VARIANTS static void move_in_unit(const struct move *m) { move_rows(m, UNIT); }
VARIANTS static void move_in_interval(const struct move *m) { move_rows(m, INTERVAL); }
VARIANTS static void move_on_grid(const struct move *m) { move_rows(m, GRID); }
VARIANTS static void move_mirrored(const struct move *m) { move_rows(m, MIRROR); }
VARIANTS static void move_mirrored_on_grid(const struct move *m) { move_rows(m, MIRROR_GRID); }

static void (*const MOVES[])(const struct move *) = {
    move_in_unit, move_in_interval, move_on_grid, move_mirrored, move_mirrored_on_grid,
};

static double length_of(enum kind kind, double low, double high, double step)
{
    double length = high > low ? high - low : 1.0;
    if (kind == GRID) return rint((high - low) / step) + 1.0;
    if (kind == MIRROR_GRID) return 2.0 * rint((high - low) / step);
    return kind == MIRROR ? 2.0 * length : length;
}

static int move_all(struct move *m, enum kind kind, const double *low, const double *high,
                    const double *step)
{
    const Py_ssize_t most = m->size = m->width * (m->width < TOGETHER ? TOGETHER : 1);
    double *room = malloc((size_t)most * 5 * sizeof *room);
    if (room == NULL) return 0;
    m->theirs = room, m->low = room + most, m->high = room + 2 * most;
    m->step = room + 3 * most, m->length = room + 4 * most;
    for (Py_ssize_t i = 0; i < most; i++) {
        Py_ssize_t column = i % m->width;
        m->low[i] = low[column], m->high[i] = high[column], m->step[i] = step[column];
        m->length[i] = length_of(kind, low[column], high[column], step[column]);
    }
    MOVES[kind](m);
    free(room);
    return 1;
}

static PyObject *move(PyObject *self, PyObject *args)
{
    enum { OWN, PARTNERS, PARTNER, STRENGTH, PTR, LOW, HIGH, STEP, OUT, SAME, ALL };
    Py_buffer b[ALL];
    int kind, fits = 0, done = 0;
    if (!PyArg_ParseTuple(args, "iy*y*y*y*y*y*y*y*w*w*", &kind, b + OWN, b + PARTNERS,
                          b + PARTNER, b + STRENGTH, b + PTR, b + LOW, b + HIGH, b + STEP, b + OUT,
                          b + SAME))
        return NULL;
    struct move m = {.own = b[OWN].buf, .partners = b[PARTNERS].buf, .partner = b[PARTNER].buf,
                     .ptr = b[PTR].buf, .strength = b[STRENGTH].buf, .out = b[OUT].buf,
                     .same = b[SAME].buf, .runs = b[STRENGTH].len / 8, .width = b[LOW].len / 8};
    const Py_ssize_t row = 4 * m.width;
    if (item_sizes_match(b, "4488888841") && kind >= UNIT && kind <= MIRROR_GRID && row > 0)
        fits = b[OWN].len % row == 0 && b[OUT].len == b[OWN].len && b[PARTNERS].len % row == 0 &&
               b[PARTNER].len == 8 * m.runs && b[PTR].len == 8 * (m.runs + 1) &&
               b[HIGH].len == b[LOW].len && b[STEP].len == b[LOW].len && b[SAME].len == m.runs &&
               disjoint(b + OWN, b + OUT);
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        fits = pointers_valid(m.ptr, m.runs, b[OWN].len / row) &&
               indices_in_range(m.partner, m.runs, b[PARTNERS].len / row);
        done = fits && move_all(&m, (enum kind)kind, b[LOW].buf, b[HIGH].buf, b[STEP].buf);
        Py_END_ALLOW_THREADS
    }
    release(b, ALL);
    if (!fits) return value_error("rows, partners, pointers and domains do not fit each other");
    if (!done) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyMethodDef METHODS[] = {
    {"move", move, METH_VARARGS,
     "move(kind, own, partners, partner, strength, ptr, low, high, step, out, same)"},
    {NULL, NULL, 0, NULL},
};

MODULE(_feature_extrapolation, "Feature extrapolation away from partners.", METHODS)
