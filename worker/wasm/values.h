// Loops that several kernels share: over values that lie in a row, and shares of them.
#pragma once
#include "rushlight.h"
#include "simd_math.h"

enum { SHARE_VALUES = 4096 };  // of cheap work: far more than taking a share costs

// How many rows make a share.
static inline u32 share_rows(u32 n_cols) {
    return n_cols < SHARE_VALUES ? SHARE_VALUES / (n_cols ? n_cols : 1) : 1;
}

static inline u32 div_up(u32 n, u32 by) { return (n + by - 1) / by; }

// For rows `row` .. `row_stop` of each share of n_rows.
#define FOR_ROW_SHARES(t, n_rows, n_cols)                                                        \
    for (u32 per = share_rows(n_cols), n_shares = div_up(n_rows, per), share;                    \
         (share = next_chunk(t, n_shares)) < n_shares;)                                          \
        for (u32 row = share * per, row_stop = min_u32(row + per, n_rows); row < row_stop; row++)

// y = op(a, b, c) for each of n values; b may be a again.
typedef v128_t value_op(v128_t a, v128_t b, v128_t c);
INLINE void map_values(const f32 *a, const f32 *b, f32 *y, u32 n, v128_t c, value_op *op) {
    u32 i = 0;
    for (; i + 4 <= n; i += 4) v_store(y + i, op(v_load(a + i), v_load(b + i), c));
    if (i < n) {
        u32 left = n - i;
        v_store_part(y + i, op(v_load_part(a + i, left), v_load_part(b + i, left), c), left);
    }
}

// The same for all rows of a value, shared out.
INLINE void share_values(struct team *t, u32 n, const f32 *a, const f32 *b, f32 *y, f32 c,
                         value_op *op) {
    u32 n_shares = div_up(n, SHARE_VALUES);
    for (u32 i; (i = next_chunk(t, n_shares)) < n_shares;) {
        u32 start = i * SHARE_VALUES, count = min_u32(n - start, SHARE_VALUES);
        map_values(a + start, b + start, y + start, count, v_const(c), op);
    }
}

INLINE v128_t op_add(v128_t a, v128_t b, v128_t c) { return wasm_f32x4_add(a, b); }
INLINE v128_t op_scale(v128_t a, v128_t b, v128_t c) { return wasm_f32x4_mul(a, c); }

// float32 values to float16 ones.
static inline void store_f16(const f32 *x, u16 *y, u32 n) {
    u32 i = 0;
    for (; i + 8 <= n; i += 8) wasm_v128_store(y + i, v_to_f16(v_load(x + i), v_load(x + i + 4)));
    for (; i < n; i++) y[i] = s_to_f16(x[i]);
}

// And back.
static inline void load_f16(const u16 *x, f32 *y, u32 n) {
    u32 i = 0;
    for (; i + 8 <= n; i += 8) {
        v128_t low, high;
        v_from_f16(wasm_v128_load(x + i), &low, &high);
        v_store(y + i, low);
        v_store(y + i + 4, high);
    }
    for (; i < n; i++) y[i] = s_from_f16(x[i]);
}
