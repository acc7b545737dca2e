// Rows and columns picked, added and pooled, rows by their position, and the best of a row.
#include "last_share.h"
#include "values.h"

void k_select_rows(const struct select_rows_args *a, struct team *t) {
    const i32 *rows = i32_at(a->rows);
    FOR_ROW_SHARES(t, t->step->n_out, a->n_cols) {
        const f32 *x = f32_at(a->x) + (usize)rows[row] * a->n_cols;
        __builtin_memcpy(f32_at(a->y) + (usize)row * a->n_cols, x, a->n_cols * sizeof(f32));
    }
}

void k_add_row(const struct add_row_args *a, struct team *t) {
    u32 n = a->n_cols;
    FOR_ROW_SHARES(t, rows_of(t, a->uses_n_out), n) {
        const f32 *x = f32_at(a->x) + (usize)row * n;
        map_values(x, f32_at(a->weight), f32_at(a->y) + (usize)row * n, n, v_const(0), op_add);
    }
}

void k_pool(const struct pool_args *a, struct team *t) {
    u32 n_cols = a->n_cols;
    FOR_ROW_SHARES(t, t->step->n_out, n_cols) {
        u32 n = a->is_cls ? 1 : (u32)i32_at(a->rows)[row] + 1;
        const f32 *x = f32_at(a->x);
        f32 *y = f32_at(a->y) + (usize)row * n_cols;
        __builtin_memcpy(y, x, n_cols * sizeof(f32));
        for (u32 i = 1; i < n; i++)
            map_values(y, x + (usize)i * n_cols, y, n_cols, v_const(0), op_add);
        map_values(y, y, y, n_cols, v_const(1 / (f32)n), op_scale);
    }
}

void k_columns(const struct columns_args *a, struct team *t) {
    FOR_ROW_SHARES(t, rows_of(t, a->uses_n_out), a->n_cols) {
        const f32 *x = f32_at(a->x) + (usize)row * a->x_cols + a->start;
        __builtin_memcpy(f32_at(a->y) + (usize)row * a->n_cols, x, a->n_cols * sizeof(f32));
    }
}

void k_positions(const struct positions_args *a, struct team *t) {
    FOR_ROW_SHARES(t, t->step->n_tokens, 1) {
        ((i32 *)at(a->y))[row] = (i32)(t->step->position + row);
    }
}

// ln(n) for n >= 1, right to the last place of float32: n = m 2^e, and a series of (m-1)/(m+1).
static f64 natural_log(u32 n) {
    u32 e = 31 - (u32)__builtin_clz(n);
    f64 m = (f64)n / (f64)(1u << e);
    if (m > 1.41421356) {
        m /= 2;
        e++;
    }
    f64 s = (m - 1) / (m + 1), square = s * s, sum = 0;
    for (i32 k = 15; k > 0; k -= 2) sum = sum * square + 2.0 / k;
    return sum * s + e * 0.69314718055994530942;
}

void k_position_scale(const struct position_scale_args *a, struct team *t) {
    u32 n = a->n_cols;
    FOR_ROW_SHARES(t, t->step->n_tokens, n) {
        u32 lengths = (t->step->position + row) / a->length;
        f32 factor = 1 + a->slope * (f32)natural_log(1 + lengths);
        const f32 *x = f32_at(a->x) + (usize)row * n;
        map_values(x, x, f32_at(a->y) + (usize)row * n, n, v_const(factor), op_scale);
    }
}

enum { BLOCK = 1024, SHARE = 16 * BLOCK };

// The largest of a block that has no NaN; *is_nan is set otherwise.
INLINE f32 block_max(const f32 *x, u32 n, u32 *is_nan) {
    v128_t best = v_const(-__builtin_inff()), other = best, odd = v_const(0);
    u32 i = 0;
    for (; i + 8 <= n; i += 8) {
        v128_t low = v_load(x + i), high = v_load(x + i + 4);
        odd = wasm_v128_or(odd, wasm_v128_or(wasm_f32x4_ne(low, low), wasm_f32x4_ne(high, high)));
        best = wasm_f32x4_pmax(best, low);
        other = wasm_f32x4_pmax(other, high);
    }
    f32 max = v_max_lane(wasm_f32x4_pmax(best, other));
    u32 found = wasm_v128_any_true(odd);
    for (; i < n; i++) {
        found |= x[i] != x[i];
        if (x[i] > max) max = x[i];
    }
    *is_nan |= found;
    return max;
}

struct best {
    f32 value;
    i32 index;  // the lowest that has it; -1: there is a NaN
};

static struct best best_of(const f32 *x, u32 n) {
    struct best best = {-__builtin_inff(), 0};
    u32 is_nan = 0;
    for (u32 start = 0; start < n; start += BLOCK) {
        f32 max = block_max(x + start, min_u32(BLOCK, n - start), &is_nan);
        if (max > best.value) best = (struct best){max, (i32)start};
    }
    if (is_nan) return (struct best){0, -1};
    while (x[best.index] != best.value) best.index++;
    return best;
}

// The best of shares that follow each other.
static i32 join_best(const struct best *found, u32 n) {
    struct best best = found[0];
    for (u32 i = 0; i < n; i++) {
        if (found[i].index < 0) return -1;
        if (found[i].value > best.value) best = found[i];
    }
    return best.index;
}

// One long row, shared out.
static void argmax_row(const struct argmax_args *a, struct team *t) {
    u32 n_shares = div_up(a->n_cols, SHARE);
    u64 *counter = at(a->parts);
    struct best *found = (struct best *)(counter + 1);
    for (u32 i; (i = next_chunk(t, n_shares)) < n_shares;) {
        u32 start = i * SHARE;
        found[i] = best_of(f32_at(a->x) + start, min_u32(SHARE, a->n_cols - start));
        if (found[i].index >= 0) found[i].index += (i32)start;
        if (is_last_share(t, counter, n_shares)) *(i32 *)at(a->y) = join_best(found, n_shares);
    }
}

void k_argmax(const struct argmax_args *a, struct team *t) {
    u32 n_rows = rows_of(t, a->uses_n_out);
    if (n_rows == 1) return argmax_row(a, t);
    FOR_ROW_SHARES(t, n_rows, a->n_cols) {
        const f32 *x = f32_at(a->x) + (usize)row * a->n_cols;
        ((i32 *)at(a->y))[row] = best_of(x, a->n_cols).index;
    }
}
