// Q4_K: 256 values of 4 bits; a 6-bit scale and minimum per 32.
#pragma once
#include "quant.h"

// Twelve bytes hold eight 6-bit scales and eight 6-bit minimums; the upper two bits of the last
// four of each sit in the top bits of the first eight bytes.
INLINE void k_scales(const u8 *block, u32 stride, struct scales *s) {
    v128_t d = f16s(block, stride), d_min = f16s(block + 2, stride);
    v128_t first = words(block + 4, stride), second = words(block + 8, stride);
    v128_t third = words(block + 12, stride);
    v128_t top = wasm_u32x4_const_splat(0x30303030), half = wasm_u32x4_const_splat(0x0F0F0F0F);
    v128_t scale = V_OR(V_AND(third, half), V_AND(wasm_u32x4_shr(first, 2), top));
    v128_t minimum =
        V_OR(V_AND(wasm_u32x4_shr(third, 4), half), V_AND(wasm_u32x4_shr(second, 2), top));
    for (u32 i = 0; i < 4; i++) {
        s->scale[i] = wasm_f32x4_mul(d, number(field(first, 8 * i, 63)));
        s->scale[i + 4] = wasm_f32x4_mul(d, number(field(scale, 8 * i, 63)));
        s->minimum[i] = wasm_f32x4_mul(d_min, number(field(second, 8 * i, 63)));
        s->minimum[i + 4] = wasm_f32x4_mul(d_min, number(field(minimum, 8 * i, 63)));
    }
}

INLINE void q4_k_scales(const u8 *block, u32 stride, struct scales *s) {
    k_scales(block, stride, s);
}

INLINE struct run q4_k_codes(const u8 *block, u32 run) {
    return bit_fields(block + 16 + 32 * (run / 2), 4 * (run & 1), 15);
}

QUANT(q4_k, 256, 144, 32, 0, false, true)
