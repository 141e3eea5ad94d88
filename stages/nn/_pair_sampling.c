/* Odds of node pairs, and weighted draws of pairs: the loops of pair_sampling.py. */

#include "_native.h"

/* Right nodes are processed in groups that fill vector registers; groups are padded with zeros. */
#define GROUP 8
/* Left nodes are processed together, so that additions of one need not wait for the last. */
#define ROWS 4
#define MAX_LOGIT 30.0f
#define MAX_WIDTH (1 << 20)

#if defined(__GNUC__)
typedef float group __attribute__((vector_size(4 * GROUP), aligned(4)));
INLINE void fill_group(group *sum, float value) { *sum = value - (group){0}; }
INLINE void add_scaled(group *sum, float factor, const float *values)
{
    group other;
    memcpy(&other, values, sizeof other);
    *sum += factor * other;
}
#else
typedef struct { float value[GROUP]; } group;
INLINE void fill_group(group *sum, float value)
{
    for (int g = 0; g < GROUP; g++) sum->value[g] = value;
}
INLINE void add_scaled(group *sum, float factor, const float *values)
{
    for (int g = 0; g < GROUP; g++) sum->value[g] += factor * values[g];
}
#endif

struct draw {
    const float *terms; /* per node: factors, then the logit of being an end of a bridge */
    Py_ssize_t width;   /* number of factors; those of the second half have a minus sign */
    const int64_t *left, *left_count, *right, *right_count; /* per attachment */
    const char *free;   /* per node of the splices; NULL: all nodes may get bridges */
    const int64_t *left_free, *right_free;
    const int64_t *wanted; /* 0: the expected number */
    int64_t most;
    const double *uniform; /* [attachments, draws] */
    Py_ssize_t attachments, draws;
    int64_t *out; /* [attachments, draws] */
};

/* exp(x) for |x| <= 30 with a polynomial (Cephes): the same bits on every processor. */
INLINE float exponential(float x)
{
    const int32_t n = (int32_t)(x * 1.44269504088896341f + 64.5f) - 64;
    const float r = x - (float)n * 0.693359375f - (float)n * -2.12194440e-4f;
    float y = 1.9875691500e-4f;
    y = y * r + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    y = y * (r * r) + r + 1.0f;
    union { int32_t bits; float value; } scale = {.bits = (n + 127) << 23};
    return y * scale.value;
}

INLINE int64_t padded(int64_t count) { return (count + GROUP - 1) / GROUP * GROUP; }

/* Fill the logits [rows, columns] of some left nodes; rows are independent chains of additions. */
INLINE void fill_rows(const float *own, Py_ssize_t width, int rows, const float *right,
                      int64_t columns, float *logits)
{
    const Py_ssize_t half = width / 2, stride = width + 1;
    for (int64_t j = 0; j < columns; j += GROUP) {
        group sum[ROWS];
        for (int r = 0; r < rows; r++) {
            fill_group(sum + r, own[r * stride + width]);
            add_scaled(sum + r, 1.0f, right + width * columns + j);
        }
        for (Py_ssize_t k = 0; k < width; k++)
            for (int r = 0; r < rows; r++) {
                const float term = own[r * stride + k];
                add_scaled(sum + r, k < half ? term : -term, right + k * columns + j);
            }
        for (int r = 0; r < rows; r++) memcpy(logits + r * columns + j, sum + r, sizeof *sum);
    }
}

/* Fill odds [L, padded R] of all pairs of one attachment; `right` is room for [width + 1, R]. */
INLINE void fill_odds(const struct draw *d, Py_ssize_t row, float *right, float *odds)
{
    const Py_ssize_t width = d->width, stride = width + 1;
    const int64_t count = d->right_count[row], columns = padded(count), lefts = d->left_count[row];
    const float *from = d->terms + d->right[row] * stride, *own = d->terms + d->left[row] * stride;
    for (Py_ssize_t k = 0; k < stride; k++) {
        for (int64_t j = 0; j < count; j++) right[k * columns + j] = from[j * stride + k];
        for (int64_t j = count; j < columns; j++) right[k * columns + j] = 0;
    }
    int64_t i = 0;
    for (; i + ROWS <= lefts; i += ROWS)
        fill_rows(own + i * stride, width, ROWS, right, columns, odds + i * columns);
    for (; i < lefts; i++)
        fill_rows(own + i * stride, width, 1, right, columns, odds + i * columns);
    for (i = 0; i < lefts * columns; i++) {
        float logit = odds[i] > -MAX_LOGIT ? odds[i] : -MAX_LOGIT; /* also if it is not a number */
        logit = logit < MAX_LOGIT ? logit : MAX_LOGIT;
        odds[i] = exponential(logit);
    }
    for (i = 0; i < lefts; i++)
        for (int64_t j = count; j < columns; j++) odds[i * columns + j] = 0;
}

/* Return the sum of a group in a fixed order, which leaves short chains of additions. */
INLINE double group_sum(const float *v)
{
    return (((double)v[0] + (double)v[4]) + ((double)v[2] + (double)v[6])) +
           (((double)v[1] + (double)v[5]) + ((double)v[3] + (double)v[7]));
}

/* Return the expected number of bridges, rounded, between 1 and `most`. */
INLINE int64_t expected(const float *restrict odds, int64_t pairs, int64_t most,
                        float *restrict probability)
{
    double sum = 0;
    for (int64_t i = 0; i < pairs; i++) probability[i] = odds[i] / (1.0f + odds[i]);
    for (int64_t i = 0; i < pairs; i += GROUP) sum += group_sum(probability + i);
    const int64_t number = (int64_t)(sum + 0.5);
    return number < 1 ? 1 : number > most ? most : number;
}

INLINE void mask_odds(const struct draw *d, Py_ssize_t row, float *odds)
{
    const int64_t columns = padded(d->right_count[row]);
    for (int64_t i = 0; i < d->left_count[row]; i++) {
        const int is_free = d->free[d->left_free[row] + i];
        for (int64_t j = 0; j < d->right_count[row]; j++)
            if (!is_free || !d->free[d->right_free[row] + j]) odds[i * columns + j] = 0;
    }
}

/* Draw one pair in proportion to its odds; -1 if all odds are 0. */
INLINE int64_t draw_one(const float *odds, int64_t pairs, double uniform)
{
    double total = 0, sum = 0;
    int64_t last = -1;
    for (int64_t i = 0; i < pairs; i += GROUP) {
        const double more = group_sum(odds + i);
        total += more;
        last = more > 0 ? i : last;
    }
    if (last < 0) return -1;
    const double mark = uniform * total;
    int64_t group = 0;
    for (; group < last; group += GROUP) {
        const double next = sum + group_sum(odds + group);
        if (next > mark) break;
        sum = next;
    }
    last = -1;
    for (int64_t i = group; i < group + GROUP; i++) {
        if (odds[i] == 0) continue;
        sum += (double)odds[i];
        last = i;
        if (sum > mark) break;
    }
    return last;
}

static void insert_sorted(int64_t *values, int64_t count, int64_t value)
{
    for (; count > 0 && values[count - 1] > value; count--) values[count] = values[count - 1];
    values[count] = value;
}

VARIANTS static void draw_all(const struct draw *d, float *right, float *odds, float *room)
{
    for (Py_ssize_t row = 0; row < d->attachments; row++) {
        const int64_t count = d->right_count[row], columns = padded(count);
        const int64_t pairs = d->left_count[row] * columns;
        int64_t *out = d->out + row * d->draws;
        fill_odds(d, row, right, odds);
        int64_t wanted = d->wanted[row] ? d->wanted[row] : expected(odds, pairs, d->most, room);
        if (d->free != NULL) mask_odds(d, row, odds);
        wanted = wanted > d->draws ? d->draws : wanted;
        for (int64_t i = 0; i < wanted; i++) {
            const int64_t pair = draw_one(odds, pairs, d->uniform[row * d->draws + i]);
            if (pair < 0) break;
            odds[pair] = 0;
            insert_sorted(out, i, pair / columns * count + pair % columns);
        }
    }
}

static int runs_in_range(const int64_t *starts, const int64_t *counts, Py_ssize_t runs, int64_t rows)
{
    for (Py_ssize_t i = 0; i < runs; i++)
        if (starts[i] < 0 || counts[i] < 0 || counts[i] > rows || starts[i] > rows - counts[i])
            return 0;
    return 1;
}

static PyObject *draw_pairs(PyObject *self, PyObject *args)
{
    enum { TERMS, LEFT, LEFT_COUNT, RIGHT, RIGHT_COUNT, FREE, LEFT_FREE, RIGHT_FREE, WANTED,
           UNIFORM, OUT, ALL };
    Py_buffer b[ALL];
    Py_ssize_t width;
    long long most;
    int fits = 0, lost = 0;
    if (!PyArg_ParseTuple(args, "y*ny*y*y*y*y*y*y*y*Ly*w*", b + TERMS, &width, b + LEFT,
                          b + LEFT_COUNT, b + RIGHT, b + RIGHT_COUNT, b + FREE, b + LEFT_FREE,
                          b + RIGHT_FREE, b + WANTED, &most, b + UNIFORM, b + OUT))
        return NULL;
    const Py_ssize_t rows = b[LEFT].len / 8;
    struct draw d = {.terms = b[TERMS].buf, .width = width, .left = b[LEFT].buf,
                     .left_count = b[LEFT_COUNT].buf, .right = b[RIGHT].buf,
                     .right_count = b[RIGHT_COUNT].buf, .free = b[FREE].len ? b[FREE].buf : NULL,
                     .left_free = b[LEFT_FREE].buf, .right_free = b[RIGHT_FREE].buf,
                     .wanted = b[WANTED].buf, .most = most, .uniform = b[UNIFORM].buf,
                     .attachments = rows, .draws = rows ? b[OUT].len / 8 / rows : 0,
                     .out = b[OUT].buf};
    if (item_sizes_match(b, "48888188888") && width >= 0 && width < MAX_WIDTH && b[LEFT_COUNT].len == b[LEFT].len &&
        b[RIGHT].len == b[LEFT].len && b[RIGHT_COUNT].len == b[LEFT].len &&
        b[LEFT_FREE].len == b[LEFT].len && b[RIGHT_FREE].len == b[LEFT].len &&
        b[WANTED].len == b[LEFT].len && b[UNIFORM].len == b[OUT].len &&
        b[OUT].len == d.draws * b[LEFT].len && b[TERMS].len % (4 * (width + 1)) == 0) {
        const int64_t nodes = b[TERMS].len / 4 / (width + 1);
        int64_t columns = 0, pairs = 0;
        Py_BEGIN_ALLOW_THREADS
        fits = runs_in_range(d.left, d.left_count, rows, nodes) &&
               runs_in_range(d.right, d.right_count, rows, nodes) &&
               (d.free == NULL ||
                (runs_in_range(d.left_free, d.left_count, rows, b[FREE].len) &&
                 runs_in_range(d.right_free, d.right_count, rows, b[FREE].len)));
        for (Py_ssize_t i = 0; fits && i < rows; i++) {
            const int64_t own = padded(d.right_count[i]);
            columns = own > columns ? own : columns;
            pairs = own * d.left_count[i] > pairs ? own * d.left_count[i] : pairs;
        }
        if (fits && rows) {
            const size_t room = pairs < PTRDIFF_MAX / 16 ? 2 * ((size_t)pairs + 1) : 0;
            float *right = malloc((size_t)(columns * (width + 1) + 1) * sizeof *right);
            float *odds = room ? malloc(room * sizeof *odds) : NULL;
            lost = right == NULL || odds == NULL;
            if (!lost) draw_all(&d, right, odds, odds + pairs);
            free(right);
            free(odds);
        }
        Py_END_ALLOW_THREADS
    }
    release(b, ALL);
    if (lost) return PyErr_NoMemory();
    if (!fits) return value_error("nodes, counts and outputs are inconsistent");
    Py_RETURN_NONE;
}

static PyMethodDef METHODS[] = {
    {"draw_pairs", draw_pairs, METH_VARARGS,
     "draw_pairs(terms, width, left, left_count, right, right_count, free, left_free, right_free, "
     "wanted, most, uniform, out)"},
    {NULL, NULL, 0, NULL},
};

MODULE(_pair_sampling, "Odds of node pairs, and weighted draws of pairs.", METHODS)
