// What the IQ1, IQ2 and IQ3 types share: vectors of a grid, and signs apart.
#pragma once
#include "quant.h"

// Codes of these types are signed numbers of up to 62, this much more.
enum { IQ_OFFSET = 64 };

// Vectors of the grids (grids.c): sizes of weights; of IQ1, 8 more than eight times the weight.
extern const u64 IQ2_XXS_VECTORS[256], IQ2_XS_VECTORS[512], IQ2_S_VECTORS[1024], IQ1_VECTORS[2048];
extern const u32 IQ3_XXS_VECTORS[256], IQ3_S_VECTORS[512];

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

// 16 values of a grid of eights, from their indices; or of a grid of fours.
INLINE v128_t two_eights(const u64 *grid, u32 first, u32 second) {
    return wasm_v128_load64_lane(grid + second, wasm_v128_load64_zero(grid + first), 1);
}

INLINE v128_t four_fours(const u32 *grid, u32 a, u32 b, u32 c, u32 d) {
    v128_t v = wasm_v128_load32_zero(grid + a);
    v = wasm_v128_load32_lane(grid + b, v, 1);
    v = wasm_v128_load32_lane(grid + c, v, 2);
    return wasm_v128_load32_lane(grid + d, v, 3);
}

// (half + scale) * quarter of d, as the IQ2 and IQ3_XXS types scale.
INLINE v128_t half_scale(v128_t d, v128_t scale, f32 factor) {
    v128_t value = wasm_f32x4_mul(d, wasm_f32x4_add(wasm_f32x4_const_splat(0.5f), number(scale)));
    return wasm_f32x4_mul(value, wasm_f32x4_splat(factor));
}

// Sixteen scales of 4 bits, two to a byte, of the types with a scale per 16.
INLINE void iq2_scales(const u8 *block, const u8 *packed, u32 stride, struct scales *s) {
    v128_t d = f16s(block, stride);
    for (u32 i = 0; i < 16; i++) {
        v128_t scale = field(words(packed + 4 * (i / 8), stride), 4 * (i & 7), 15);
        s->scale[i] = half_scale(d, scale, 0.25f);
        s->minimum[i] = zeros();
    }
}
