// Root mean square normalisation of one run of values.
#pragma once
#include "values.h"

INLINE f32 sum_of_squares(const f32 *x, u32 n) {
    v128_t a = v_const(0), b = v_const(0);
    u32 i = 0;
    for (; i + 8 <= n; i += 8) {
        v128_t low = v_load(x + i), high = v_load(x + i + 4);
        a = v_madd(low, low, a);
        b = v_madd(high, high, b);
    }
    f32 sum = v_sum(wasm_f32x4_add(a, b));
    for (; i < n; i++) sum += x[i] * x[i];
    return sum;
}

INLINE v128_t op_times(v128_t x, v128_t weight, v128_t scale) {
    return wasm_f32x4_mul(wasm_f32x4_mul(x, scale), weight);
}

// The weight of group `index` of all rows' groups, if there is one.
static inline const f32 *weight_of(place weight, u32 index, u32 n_weights, u32 n) {
    return weight ? f32_at(weight) + (usize)(index % n_weights) * n : 0;
}

// y = x / sqrt(mean(x^2) + eps) * weight, if there is one; y may be x.
static inline void rms_norm_values(const f32 *x, const f32 *weight, f32 *y, u32 n, f32 eps) {
    v128_t scale = v_const(1.0f / __builtin_sqrtf(sum_of_squares(x, n) / (f32)n + eps));
    if (weight) map_values(x, weight, y, n, scale, op_times);
    else map_values(x, x, y, n, scale, op_scale);
}
