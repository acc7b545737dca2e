// Ops that work value by value.
#include "values.h"

INLINE v128_t op_silu(v128_t a, v128_t b, v128_t c) { return wasm_f32x4_mul(a, v_sigmoid(a)); }

// x (1 + tanh(u)) / 2 = x / (1 + e^-2u): one exp, and no cancellation where tanh is near -1.
INLINE v128_t op_gelu_tanh(v128_t x, v128_t b, v128_t c) {
    v128_t square = wasm_f32x4_mul(x, x);
    f32 twice = 2 * 0.7978845608f;  // sqrt(2 / pi)
    v128_t slope = v_madd(square, v_const(twice * 0.044715f), v_const(twice));
    return wasm_f32x4_mul(x, v_sigmoid(wasm_f32x4_mul(x, slope)));
}

INLINE v128_t op_gelu(v128_t x, v128_t b, v128_t c) {
    v128_t half = wasm_f32x4_mul(x, v_const(0.5f));
    return v_madd(half, v_erf(wasm_f32x4_mul(x, v_const(0.70710678f))), half);
}

INLINE v128_t op_relu(v128_t x, v128_t b, v128_t c) { return wasm_f32x4_max(x, v_const(0)); }

INLINE v128_t op_relu2(v128_t x, v128_t b, v128_t c) {
    v128_t positive = op_relu(x, b, c);
    return wasm_f32x4_mul(positive, positive);
}

INLINE v128_t op_softcap(v128_t x, v128_t b, v128_t cap) {
    return wasm_f32x4_mul(cap, v_tanh(wasm_f32x4_div(x, cap)));
}

#define ACTIVATIONS(X)                                                                           \
    X(SILU, silu) X(GELU_TANH, gelu_tanh) X(GELU, gelu) X(RELU, relu)                            \
    X(RELU2, relu2)

#define GATED(id, name)                                                                          \
    INLINE v128_t op_##name##_glu(v128_t gate, v128_t up, v128_t c) {                            \
        return wasm_f32x4_mul(op_##name(gate, gate, c), up);                                     \
    }
ACTIVATIONS(GATED)

void k_glu(const struct glu_args *a, struct team *t) {
    u32 n = rows_of(t, a->uses_n_out) * a->n_cols;
    const f32 *gate = f32_at(a->gate), *up = f32_at(a->up);
    switch (a->activation) {
#define CASE(id, name)                                                                           \
    case id:                                                                                     \
        share_values(t, n, gate, up, f32_at(a->y), 0, op_##name##_glu);                          \
        break;
        ACTIVATIONS(CASE)
#undef CASE
    }
}

void k_activate(const struct activate_args *a, struct team *t) {
    u32 n = rows_of(t, a->uses_n_out) * a->n_cols;
    const f32 *x = f32_at(a->x);
    switch (a->activation) {
#define CASE(id, name)                                                                           \
    case id:                                                                                     \
        share_values(t, n, x, x, f32_at(a->y), 0, op_##name);                                    \
        break;
        ACTIVATIONS(CASE)
#undef CASE
    }
}

void k_add(const struct add_args *a, struct team *t) {
    u32 n = rows_of(t, a->uses_n_out) * a->n_cols;
    share_values(t, n, f32_at(a->a), f32_at(a->b), f32_at(a->y), 0, op_add);
}

void k_scale(const struct scale_args *a, struct team *t) {
    u32 n = rows_of(t, a->uses_n_out) * a->n_cols;
    share_values(t, n, f32_at(a->x), f32_at(a->x), f32_at(a->y), a->factor, op_scale);
}

void k_softcap(const struct softcap_args *a, struct team *t) {
    u32 n = rows_of(t, a->uses_n_out) * a->n_cols;
    share_values(t, n, f32_at(a->x), f32_at(a->x), f32_at(a->y), a->cap, op_softcap);
}

void k_scale_by(const struct scale_by_args *a, struct team *t) {
    u32 n = rows_of(t, a->uses_n_out) * a->n_cols;
    const f32 *x = f32_at(a->x);
    share_values(t, n, x, x, f32_at(a->y), *f32_at(a->weight), op_scale);
}

// NaN stays.
INLINE v128_t within(v128_t x, v128_t limit) {
    return wasm_f32x4_min(wasm_f32x4_max(x, wasm_f32x4_neg(limit)), limit);
}

INLINE v128_t op_clamp(v128_t x, v128_t b, v128_t limit) { return within(x, limit); }

void k_clamp(const struct clamp_args *a, struct team *t) {
    u32 n = rows_of(t, a->uses_n_out) * a->n_cols;
    share_values(t, n, f32_at(a->x), f32_at(a->x), f32_at(a->y), a->limit, op_clamp);
}
