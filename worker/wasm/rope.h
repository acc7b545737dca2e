// Rotation of one head by the angles of one position.
#pragma once
#include "values.h"

// a cos - b sin, a sin + b cos, for four pairs; `angles` holds cos and sin side by side.
INLINE void turn_halves(const f32 *a, const f32 *b, const f32 *angles, f32 *ya, f32 *yb) {
    v128_t low = v_load(angles), high = v_load(angles + 4);
    v128_t cos = wasm_i32x4_shuffle(low, high, 0, 2, 4, 6);
    v128_t sin = wasm_i32x4_shuffle(low, high, 1, 3, 5, 7);
    v128_t va = v_load(a), vb = v_load(b);
    v_store(ya, wasm_f32x4_sub(wasm_f32x4_mul(va, cos), wasm_f32x4_mul(vb, sin)));
    v_store(yb, wasm_f32x4_add(wasm_f32x4_mul(va, sin), wasm_f32x4_mul(vb, cos)));
}

// The same for two pairs of neighbours.
INLINE void turn_neighbours(const f32 *x, const f32 *angles, f32 *y) {
    v128_t both = v_load(angles), v = v_load(x);
    v128_t cos = wasm_i32x4_shuffle(both, both, 0, 0, 2, 2);
    v128_t sin = wasm_i32x4_shuffle(both, both, 1, 1, 3, 3);
    sin = wasm_v128_xor(sin, wasm_i32x4_make((i32)0x80000000, 0, (i32)0x80000000, 0));
    v128_t other = wasm_i32x4_shuffle(v, v, 1, 0, 3, 2);
    v_store(y, wasm_f32x4_add(wasm_f32x4_mul(v, cos), wasm_f32x4_mul(other, sin)));
}

INLINE void turn_pair(f32 a, f32 b, const f32 *angle, f32 *ya, f32 *yb) {
    *ya = a * angle[0] - b * angle[1];
    *yb = a * angle[1] + b * angle[0];
}

// The first n_rot of a head's values turned, the others copied; y may be x.
static inline void rope_head(const f32 *x, const f32 *angles, f32 *y, u32 head_dim, u32 n_rot,
                             u32 layout) {
    u32 half = n_rot / 2, i = 0;
    if (layout == ROPE_NEOX) {
        for (; i + 4 <= half; i += 4)
            turn_halves(x + i, x + half + i, angles + 2 * i, y + i, y + half + i);
        for (; i < half; i++) turn_pair(x[i], x[half + i], angles + 2 * i, y + i, y + half + i);
    } else {
        for (; i + 2 <= half; i += 2) turn_neighbours(x + 2 * i, angles + 2 * i, y + 2 * i);
        if (i < half) turn_pair(x[2 * i], x[2 * i + 1], angles + 2 * i, y + 2 * i, y + 2 * i + 1);
    }
    if (y != x) for (i = n_rot; i < head_dim; i++) y[i] = x[i];
}
