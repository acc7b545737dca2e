// What the IQ1, IQ2 and IQ3 types share: vectors of a grid, and signs apart.
#pragma once
#include "grids.h"
#include "quant.h"

// Codes of these types are signed numbers of up to 62, this much more.
enum { IQ_OFFSET = 64 };

// Sign masks of four times eight values from 28 bits: the eighth makes the number of ones even.
INLINE u32 even_signs(u32 packed) {
    u32 masks = (packed & 127) | (packed & 127 << 7) << 1 | (packed & 127 << 14) << 2 |
                (packed & 127 << 21) << 3;
    u32 parity = masks ^ masks >> 4;  // bit 7 of a mask is 0, so nothing crosses into bits 0..3
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return masks | (parity & 0x01010101) << 7;
}

INLINE v128_t signed_code(v128_t size, v128_t is_minus) {
    v128_t value = wasm_i8x16_sub(wasm_v128_xor(size, is_minus), is_minus);
    return wasm_i8x16_add(value, BYTES(IQ_OFFSET));
}

INLINE struct run with_signs(struct run sizes, u32 signs) {
    struct run minus = bit_masks(signs);
    return (struct run){signed_code(sizes.low, minus.low), signed_code(sizes.high, minus.high)};
}

// Which of the 2-bit codes 0, 1, 2 stand in two words of a grid: all ones where it is 1, 2.
INLINE struct run codes_of_8(u32 first, u32 second) {
    v128_t v = wasm_u32x4_splat(first | second << 16);
    v = wasm_i8x16_shuffle(v, v, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    v128_t one = v_kept(wasm_u32x4_const_splat(0x40100401));
    v128_t two = v_kept(wasm_u32x4_const_splat(0x80200802));
    return (struct run){wasm_i8x16_eq(V_AND(v, one), one), wasm_i8x16_eq(V_AND(v, two), two)};
}

// 16 values of an IQ2 grid: 8, 25 or 43.
INLINE v128_t iq2_values(u32 first, u32 second) {
    struct run is = codes_of_8(first, second);
    v128_t above = V_OR(V_AND(is.low, BYTES(25 - 8)), V_AND(is.high, BYTES(43 - 8)));
    return wasm_i8x16_add(above, BYTES(8));
}

// 16 codes of an IQ3 grid: 3 bits in a nibble each.
INLINE v128_t iq3_codes(u32 a, u32 b, u32 c, u32 d) {
    v128_t v = wasm_i32x4_make(a | b << 16, c | d << 16, 0, 0);
    v128_t low = low_nibbles(v), high = high_nibbles(v);
    return wasm_i8x16_shuffle(low, high, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}

// (half + scale) * quarter of d, as the IQ2 and IQ3_XXS types scale.
INLINE v128_t half_scale(v128_t d, v128_t scale, f32 factor) {
    v128_t value = wasm_f32x4_mul(d, wasm_f32x4_add(wasm_f32x4_const_splat(0.5f), number(scale)));
    return wasm_f32x4_mul(value, wasm_f32x4_splat(factor));
}

// Sixteen scales of 4 bits, two to a byte, of the types with a scale per 16.
INLINE void iq2_scales(const u8 *d, const u8 *packed, u32 stride, struct scales *s) {
    for (u32 i = 0; i < 16; i++) {
        v128_t scale = field(words(packed + 4 * (i / 8), stride), 4 * (i & 7), 15);
        s->scale[i] = half_scale(f16s(d, stride), scale, 0.25f);
        s->minimum[i] = zeros();
    }
}
