// Normalisations: rms_norm, its joints with the residual stream, layer_norm. Shares are rows.
#include "norm.h"

void k_rms_norm(const struct rms_norm_args *a, struct team *t) {
    u32 n = a->n_cols / a->n_group;
    FOR_ROW_SHARES(t, rows_of(t, a->uses_n_out) * a->n_group, n) {
        usize start = (usize)row * n;
        const f32 *weight = weight_of(a->weight, row, a->n_weights, n);
        rms_norm_values(f32_at(a->x) + start, weight, f32_at(a->y) + start, n, a->eps);
    }
}

void k_joint_norm(const struct joint_norm_args *a, struct team *t) {
    u32 n = a->n_cols;
    FOR_ROW_SHARES(t, rows_of(t, a->uses_n_out), n) {
        usize start = (usize)row * n;
        const f32 *x = f32_at(a->x) + start, *branch = f32_at(a->a) + start;
        f32 *sum = f32_at(a->sum) + start;
        if (a->post_weight) {
            f32 *normed = t->scratch;
            rms_norm_values(branch, weight_of(a->post_weight, 0, 1, n), normed, n, a->eps);
            branch = normed;
        }
        map_values(x, branch, sum, n, v_const(0), op_add);
        const f32 *weight = weight_of(a->weight, 0, 1, n);
        if (a->y) rms_norm_values(sum, weight, f32_at(a->y) + start, n, a->eps);
    }
}

INLINE v128_t op_minus(v128_t x, v128_t b, v128_t mean) { return wasm_f32x4_sub(x, mean); }

INLINE f32 mean_of(const f32 *x, u32 n) {
    v128_t sum = v_const(0);
    u32 i = 0;
    for (; i + 4 <= n; i += 4) sum = wasm_f32x4_add(sum, v_load(x + i));
    f32 total = v_sum(sum);
    for (; i < n; i++) total += x[i];
    return total / (f32)n;
}

void k_layer_norm(const struct layer_norm_args *a, struct team *t) {
    u32 n = a->n_cols / a->n_group;
    FOR_ROW_SHARES(t, rows_of(t, a->uses_n_out) * a->n_group, n) {
        usize start = (usize)row * n;
        const f32 *x = f32_at(a->x) + start;
        const f32 *bias = weight_of(a->bias, row, a->n_biases, n);
        f32 *y = f32_at(a->y) + start;
        map_values(x, x, y, n, v_const(mean_of(x, n)), op_minus);
        rms_norm_values(y, weight_of(a->weight, row, a->n_weights, n), y, n, a->eps);
        if (bias) map_values(y, bias, y, n, v_const(0), op_add);
    }
}
