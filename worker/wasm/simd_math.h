// Functions of four float32 at a time, and float16: what the kernels share instead of a libm.
//
// Accuracy: exp and tanh within 2e-7 of the true value, erf 4e-7, relative. NaN stays NaN.
// float16 conversions are exact, subnormals included; float32 -> float16 rounds to nearest even.
#ifndef RUSHLIGHT_SIMD_MATH_H
#define RUSHLIGHT_SIMD_MATH_H

#include <stddef.h>
#include <stdint.h>
#include <wasm_simd128.h>

#define INLINE static inline __attribute__((always_inline))
// More negative than any logit or score, and finite: "may not be chosen".
#define LOWEST (-3.0e38f)

INLINE v128_t v_load(const float *p) { return wasm_v128_load(p); }
INLINE void v_store(float *p, v128_t v) { wasm_v128_store(p, v); }
// A constant that stays in a register: V8 builds a vector constant anew (three instructions)
// wherever the compiler writes it down, inside of loops too.
INLINE v128_t v_kept(v128_t c) {
    __asm__("" : "+r"(c));
    return c;
}
INLINE v128_t v_const(float x) { return v_kept(wasm_f32x4_splat(x)); }
INLINE v128_t v_bits(uint32_t x) { return v_kept(wasm_i32x4_splat((int32_t)x)); }

// a * b + c; in one rounding where the build and the machine have it.
INLINE v128_t v_madd(v128_t a, v128_t b, v128_t c) {
#ifdef RELAXED
    return wasm_f32x4_relaxed_madd(a, b, c);
#else
    return wasm_f32x4_add(wasm_f32x4_mul(a, b), c);
#endif
}

INLINE v128_t v_sub_mul(v128_t c, v128_t a, v128_t b) {
#ifdef RELAXED
    return wasm_f32x4_relaxed_nmadd(a, b, c);
#else
    return wasm_f32x4_sub(c, wasm_f32x4_mul(a, b));
#endif
}

INLINE float v_sum(v128_t v) {
    v128_t pair = wasm_f32x4_add(v, wasm_i32x4_shuffle(v, v, 2, 3, 0, 1));
    return wasm_f32x4_extract_lane(pair, 0) + wasm_f32x4_extract_lane(pair, 1);
}

// The largest of four; NaN if one is.
INLINE float v_max_lane(v128_t v) {
    v128_t pair = wasm_f32x4_max(v, wasm_i32x4_shuffle(v, v, 2, 3, 0, 1));
    pair = wasm_f32x4_max(pair, wasm_i32x4_shuffle(pair, pair, 1, 0, 3, 2));
    return wasm_f32x4_extract_lane(pair, 0);
}

// Sums of four vectors, as one vector.
INLINE v128_t v_sum4(v128_t a, v128_t b, v128_t c, v128_t d) {
#define PAIR_SUMS(x, y)                                                                          \
    wasm_f32x4_add(wasm_i32x4_shuffle(x, y, 0, 4, 1, 5), wasm_i32x4_shuffle(x, y, 2, 6, 3, 7))
    v128_t ab = PAIR_SUMS(a, b), cd = PAIR_SUMS(c, d);
#undef PAIR_SUMS
    return wasm_f32x4_add(wasm_i64x2_shuffle(ab, cd, 0, 2), wasm_i64x2_shuffle(ab, cd, 1, 3));
}

// The first n (1 to 3) of four values, zero behind them; reads and writes no further than that.
INLINE v128_t v_load_part(const float *p, uint32_t n) {
    v128_t v = wasm_v128_load32_zero(p);
    if (n > 1) v = wasm_v128_load32_lane(p + 1, v, 1);
    return n > 2 ? wasm_v128_load32_lane(p + 2, v, 2) : v;
}

INLINE void v_store_part(float *p, v128_t v, uint32_t n) {
    wasm_v128_store32_lane(p, v, 0);
    if (n > 1) wasm_v128_store32_lane(p + 1, v, 1);
    if (n > 2) wasm_v128_store32_lane(p + 2, v, 2);
}

// e^x, 0 below `least` (-87.3 or more): x = n ln2 + r, a polynomial of r (Cephes), n added to the
// exponent.
INLINE v128_t v_exp_above(v128_t x, float least) {
    v128_t n = wasm_f32x4_nearest(wasm_f32x4_mul(x, v_const(1.44269504f)));
    v128_t r = v_sub_mul(x, n, v_const(0.693359375f));
    r = v_sub_mul(r, n, v_const(-2.12194440e-4f));
    v128_t p = v_madd(v_const(1.9875691500e-4f), r, v_const(1.3981999507e-3f));
    p = v_madd(p, r, v_const(8.3334519073e-3f));
    p = v_madd(p, r, v_const(4.1665795894e-2f));
    p = v_madd(p, r, v_const(1.6666665459e-1f));
    p = v_madd(p, r, v_const(5.0000001201e-1f));
    p = wasm_f32x4_add(v_madd(wasm_f32x4_mul(r, r), p, r), v_const(1.0f));
    v128_t power = wasm_i32x4_shl(wasm_i32x4_trunc_sat_f32x4(n), 23);
    v128_t y = wasm_i32x4_add(p, power);
    y = wasm_v128_andnot(y, wasm_f32x4_lt(x, v_const(least)));
    return wasm_v128_bitselect(v_const(__builtin_inff()), y, wasm_f32x4_gt(x, v_const(88.72283f)));
}

INLINE v128_t v_exp(v128_t x) { return v_exp_above(x, -87.3f); }

// 1 / (1 + e^-x).
INLINE v128_t v_sigmoid(v128_t x) {
    v128_t one = v_const(1.0f);
    return wasm_f32x4_div(one, wasm_f32x4_add(one, v_exp(wasm_f32x4_neg(x))));
}

// A polynomial near zero (Cephes), where the quotient would cancel; elsewhere 1 - 2 / (e^2|x| + 1).
INLINE v128_t v_tanh(v128_t x) {
    v128_t size = wasm_f32x4_abs(x), one = v_const(1.0f);
    v128_t e = wasm_f32x4_add(v_exp(wasm_f32x4_add(size, size)), one);
    v128_t far = wasm_f32x4_sub(one, wasm_f32x4_div(v_const(2.0f), e));
    far = wasm_v128_bitselect(x, far, v_bits(0x80000000u));
    v128_t square = wasm_f32x4_mul(x, x);
    v128_t p = v_madd(v_const(-5.70498872745e-3f), square, v_const(2.06390887954e-2f));
    p = v_madd(p, square, v_const(-5.37397155531e-2f));
    p = v_madd(p, square, v_const(1.33314422036e-1f));
    p = v_madd(p, square, v_const(-3.33332819422e-1f));
    v128_t near = v_madd(wasm_f32x4_mul(p, square), x, x);
    return wasm_v128_bitselect(near, far, wasm_f32x4_lt(size, v_const(0.625f)));
}

// A quotient of two polynomials on [-4, 4]; beyond, float32 has no number between it and 1.
INLINE v128_t v_erf(v128_t x) {
    v128_t at = wasm_f32x4_max(wasm_f32x4_min(x, v_const(4.0f)), v_const(-4.0f));
    v128_t square = wasm_f32x4_mul(at, at);
    v128_t p = v_madd(v_const(-2.72614225801306e-10f), square, v_const(2.77068142495902e-8f));
    p = v_madd(p, square, v_const(-2.10102402082508e-6f));
    p = v_madd(p, square, v_const(-5.69250639462346e-5f));
    p = v_madd(p, square, v_const(-7.34990630326855e-4f));
    p = v_madd(p, square, v_const(-2.95459980854025e-3f));
    p = v_madd(p, square, v_const(-1.60960333262415e-2f));
    v128_t q = v_madd(v_const(-1.45660718464996e-5f), square, v_const(-2.13374055278905e-4f));
    q = v_madd(q, square, v_const(-1.68282697438203e-3f));
    q = v_madd(q, square, v_const(-7.37332916720468e-3f));
    q = v_madd(q, square, v_const(-1.42647390514189e-2f));
    return wasm_f32x4_div(wasm_f32x4_mul(p, at), q);
}

// Eight float16 to float32; minus zero becomes zero. The half's exponent grows by 112, or by 224
// where it is all ones. A subnormal half takes the exponent of the smallest normal one, which is
// then subtracted: as a subnormal float on the way it would cost a hundred cycles.
INLINE void v_from_f16(v128_t halves, v128_t *low, v128_t *high) {
#define HALVES(x) v_kept(wasm_i16x8_splat((int16_t)(x)))
    v128_t size = wasm_v128_and(halves, HALVES(0x7fff)), bias = HALVES(112 << 7);
    v128_t special = wasm_v128_and(wasm_i16x8_gt(size, HALVES(0x7bff)), bias);
    v128_t is_small = wasm_i16x8_lt(size, HALVES(0x400));
    v128_t top = wasm_v128_and(wasm_i16x8_shr(halves, 3), HALVES(0x8fff));
    top = wasm_i16x8_add(wasm_i16x8_add(top, bias), special);
    top = wasm_i16x8_add(top, wasm_v128_and(is_small, HALVES(1 << 7)));
    v128_t least = wasm_v128_or(wasm_v128_and(halves, HALVES(0x8000)), HALVES(113 << 7));
    least = wasm_v128_and(least, is_small);
    v128_t bottom = wasm_i16x8_shl(halves, 13), zero = v_const(0);
#define LOW(a, b) wasm_i16x8_shuffle(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(a, b) wasm_i16x8_shuffle(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
    *low = wasm_f32x4_sub(LOW(bottom, top), LOW(zero, least));
    *high = wasm_f32x4_sub(HIGH(bottom, top), HIGH(zero, least));
#undef LOW
#undef HIGH
#undef HALVES
}

// Four float32 to float16, in the low halves of four u32.
INLINE v128_t v_f16_bits(v128_t x) {
    v128_t sign = wasm_v128_and(x, v_bits(0x80000000u));
    v128_t size = wasm_v128_xor(x, sign);
    // Normal: a new exponent, and half of the last place (less one if even) before the cut.
    v128_t odd = wasm_v128_and(wasm_u32x4_shr(size, 13), v_bits(1));
    v128_t normal = wasm_i32x4_add(size, v_bits(0xc8000fffu));
    normal = wasm_u32x4_shr(wasm_i32x4_add(normal, odd), 13);
    // Subnormal: the last place of 0.5 is theirs, so the addition rounds.
    v128_t small = wasm_i32x4_sub(wasm_f32x4_add(size, v_const(0.5f)), v_const(0.5f));
    v128_t y = wasm_v128_bitselect(small, normal, wasm_i32x4_lt(size, v_bits(0x38800000u)));
    v128_t quiet = wasm_v128_and(wasm_u32x4_shr(size, 13), v_bits(0x3ff));
    quiet = wasm_v128_or(quiet, v_bits(0x200));
    quiet = wasm_v128_and(quiet, wasm_i32x4_gt(size, v_bits(0x7f800000u)));
    v128_t special = wasm_v128_or(quiet, v_bits(0x7c00));
    y = wasm_v128_bitselect(special, y, wasm_i32x4_ge(size, v_bits(0x47800000u)));
    return wasm_v128_or(y, wasm_u32x4_shr(sign, 16));
}

// Eight float32 to eight float16.
INLINE v128_t v_to_f16(v128_t low, v128_t high) {
    v128_t a = v_f16_bits(low), b = v_f16_bits(high);
    return wasm_i16x8_shuffle(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
}

INLINE float s_exp(float x) { return wasm_f32x4_extract_lane(v_exp(v_const(x)), 0); }
INLINE float s_from_f16(uint16_t half) {
    v128_t low, high;
    v_from_f16(wasm_i16x8_splat((int16_t)half), &low, &high);
    return wasm_f32x4_extract_lane(low, 0);
}
INLINE uint16_t s_to_f16(float x) {
    return (uint16_t)wasm_i32x4_extract_lane(v_f16_bits(v_const(x)), 0);
}

#endif
