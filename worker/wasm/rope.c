// Rotary position embedding: the angles of a step's tokens, and heads turned by them.
#include "rope.h"

// Cosine and sine of two angles up to 1e6, right to the last place of float32: in float64, after
// taking off multiples of pi / 2 (Cody & Waite), by polynomials on [-pi/4, pi/4] (FreeBSD's).
INLINE void cos_sin2(v128_t x, v128_t *cos, v128_t *sin) {
    v128_t k = wasm_f64x2_nearest(wasm_f64x2_mul(x, wasm_f64x2_splat(0.63661977236758134308)));
    v128_t r = wasm_f64x2_sub(x, wasm_f64x2_mul(k, wasm_f64x2_splat(1.57079632673412561417)));
    r = wasm_f64x2_sub(r, wasm_f64x2_mul(k, wasm_f64x2_splat(6.07710050650619224932e-11)));
    v128_t z = wasm_f64x2_mul(r, r);
#define POLYNOMIAL(p, c) p = wasm_f64x2_add(wasm_f64x2_mul(p, z), wasm_f64x2_splat(c))
    v128_t s = wasm_f64x2_splat(2.7183114939898219064e-6);
    POLYNOMIAL(s, -1.98393348360966317347e-4);
    POLYNOMIAL(s, 8.3333293858894631756e-3);
    POLYNOMIAL(s, -1.66666666416265235595e-1);
    POLYNOMIAL(s, 1.0);
    s = wasm_f64x2_mul(s, r);
    v128_t c = wasm_f64x2_splat(2.43904487962774090654e-5);
    POLYNOMIAL(c, -1.38867637746099294692e-3);
    POLYNOMIAL(c, 4.16666233237390631894e-2);
    POLYNOMIAL(c, -4.99999997251031003120e-1);
    POLYNOMIAL(c, 1.0);
#undef POLYNOMIAL
    // Quarter k: (c, s), (-s, c), (-c, -s), (s, -c).
    v128_t turns = wasm_i32x4_trunc_sat_f64x2_zero(k);
    turns = wasm_i64x2_extend_low_i32x4(turns);
    v128_t is_odd = wasm_i64x2_eq(wasm_v128_and(turns, wasm_i64x2_splat(1)), wasm_i64x2_splat(1));
    v128_t sin_sign = wasm_i64x2_shl(wasm_v128_and(turns, wasm_i64x2_splat(2)), 62);
    v128_t next = wasm_i64x2_add(turns, wasm_i64x2_splat(1));
    v128_t cos_sign = wasm_i64x2_shl(wasm_v128_and(next, wasm_i64x2_splat(2)), 62);
    *cos = wasm_v128_xor(wasm_v128_bitselect(s, c, is_odd), cos_sign);
    *sin = wasm_v128_xor(wasm_v128_bitselect(c, s, is_odd), sin_sign);
}

void k_angles(const struct angles_args *a, struct team *t) {
    u32 half = a->n_rot / 2;
    const f32 *freqs = f32_at(a->freqs);
    v128_t factor = v_const(a->factor);
    FOR_ROW_SHARES(t, t->step->n_tokens, a->n_rot) {
        f32 *y = f32_at(a->y) + (usize)row * a->n_rot;
        v128_t position = v_const((f32)(t->step->position + row)), cos, sin;
        for (u32 i = 0; i < half; i += 2) {
            u32 is_pair = i + 2 <= half;
            v128_t freq = is_pair ? wasm_v128_load64_zero(freqs + i) : v_load_part(freqs + i, 1);
            cos_sin2(wasm_f64x2_promote_low_f32x4(wasm_f32x4_mul(position, freq)), &cos, &sin);
            cos = wasm_f32x4_demote_f64x2_zero(cos);
            sin = wasm_f32x4_demote_f64x2_zero(sin);
            v128_t pairs = wasm_f32x4_mul(wasm_i32x4_shuffle(cos, sin, 0, 4, 1, 5), factor);
            if (is_pair) v_store(y + 2 * i, pairs);
            else v_store_part(y + 2 * i, pairs, 2);
        }
    }
}

void k_rope(const struct rope_args *a, struct team *t) {
    u32 n = a->head_dim;
    FOR_ROW_SHARES(t, t->step->n_tokens * a->n_head, n) {
        const f32 *angles = f32_at(a->angles) + (usize)(row / a->n_head) * a->n_rot;
        usize start = (usize)row * n;
        rope_head(f32_at(a->x) + start, angles, f32_at(a->y) + start, n, a->n_rot, a->layout);
    }
}
