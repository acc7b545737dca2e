// Q2_K: 256 values of 2 bits; a 4-bit scale and a 4-bit minimum per 16.
#pragma once
#include "quant.h"

INLINE void q2_k_scales(const u8 *block, u32 stride, struct scales *s) {
    v128_t d = f16s(block + 80, stride), d_min = f16s(block + 82, stride);
    for (u32 i = 0; i < 16; i++) {
        v128_t packed = words(block + (i & ~3u), stride);
        s->scale[i] = wasm_f32x4_mul(d, number(field(packed, 8 * (i & 3), 15)));
        s->minimum[i] = wasm_f32x4_mul(d_min, number(field(packed, 8 * (i & 3) + 4, 15)));
    }
}

INLINE struct run q2_k_codes(const u8 *block, u32 run) {
    return bit_fields(block + 16 + 32 * (run / 4), 2 * (run & 3), 3);
}

QUANT(q2_k, 256, 84, 16, 0, false, true)
