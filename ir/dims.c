/* dims.c: arithmetic of dimensions, each a constant or a constant times at most two symbols. */
#include "ir/ir.h"

bool dim_is_const(Dim a)
{
    return a.sym[0] == 0;
}

bool dim_equal(Dim a, Dim b)
{
    return a.k == b.k && a.sym[0] == b.sym[0] && a.sym[1] == b.sym[1];
}

static Dim normal(int64_t k, const uint8_t *syms, int n)
{
    Dim d = {.k = k};
    if (k != 0) { /* nothing times B is nothing */
        d.sym[0] = n > 0 ? syms[0] : 0;
        d.sym[1] = n > 1 ? syms[1] : 0;
        if (d.sym[0] < d.sym[1]) {
            uint8_t swap = d.sym[0];
            d.sym[0] = d.sym[1];
            d.sym[1] = swap;
        }
    }
    return d;
}

bool dim_mul(Dim a, Dim b, Dim *out)
{
    uint8_t syms[4];
    int n = 0;
    for (int i = 0; i < 2; i++) {
        if (a.sym[i] != 0) {
            syms[n++] = a.sym[i];
        }
        if (b.sym[i] != 0) {
            syms[n++] = b.sym[i];
        }
    }
    int64_t k;
    if (__builtin_mul_overflow(a.k, b.k, &k) || (n > 2 && k != 0)) {
        return false;
    }
    *out = normal(k, syms, n);
    return true;
}

bool dim_div(Dim a, Dim b, Dim *out)
{
    if (b.k <= 0 || a.k % b.k != 0) {
        return false;
    }
    uint8_t syms[2];
    int n = 0;
    bool used[2] = {false, false};
    for (int i = 0; i < 2; i++) {
        if (a.sym[i] == 0) {
            continue;
        }
        if (b.sym[0] == a.sym[i] && !used[0]) {
            used[0] = true;
        } else if (b.sym[1] == a.sym[i] && !used[1]) {
            used[1] = true;
        } else {
            syms[n++] = a.sym[i];
        }
    }
    if ((b.sym[0] != 0 && !used[0]) || (b.sym[1] != 0 && !used[1])) {
        return false;
    }
    *out = normal(a.k / b.k, syms, n);
    return true;
}

bool dims_equal(const Dims *a, const Dims *b)
{
    if (a->rank != b->rank) {
        return false;
    }
    for (int i = 0; i < a->rank; i++) {
        if (!dim_equal(a->d[i], b->d[i])) {
            return false;
        }
    }
    return true;
}

bool dims_count(const Dims *a, Dim *out)
{
    Dim n = dim_of(1);
    for (int i = 0; i < a->rank; i++) {
        if (!dim_mul(n, a->d[i], &n)) {
            return false;
        }
    }
    *out = n;
    return true;
}

/* The dims of an element-wise op: aligned at the right, equal or 1. */
bool broadcast_dims(const Dims *a, const Dims *b, Dims *out)
{
    Dims r = {.rank = a->rank > b->rank ? a->rank : b->rank};
    for (int i = 1; i <= r.rank; i++) {
        Dim x = i <= a->rank ? a->d[a->rank - i] : dim_of(1);
        Dim y = i <= b->rank ? b->d[b->rank - i] : dim_of(1);
        if (!dim_equal(x, y) && !dim_equal(x, dim_of(1)) && !dim_equal(y, dim_of(1))) {
            return false;
        }
        r.d[r.rank - i] = dim_equal(x, dim_of(1)) ? y : x;
    }
    *out = r;
    return true;
}
