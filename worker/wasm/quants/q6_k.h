// Q6_K: 256 values of 6 bits less 32, in a nibble and two bits; a signed 8-bit scale per 16.
#pragma once
#include "quant.h"

INLINE void q6_k_scales(const u8 *block, u32 stride, struct scales *s) {
    v128_t d = f16s(block + 208, stride);
    for (u32 i = 0; i < 16; i++) {
        v128_t packed = words(block + 192 + (i & ~3u), stride);
        v128_t scale = wasm_i32x4_shr(wasm_i32x4_shl(packed, 24 - 8 * (i & 3)), 24);
        s->scale[i] = wasm_f32x4_mul(d, number(scale));
        s->minimum[i] = zeros();
    }
}

INLINE struct run q6_k_codes(const u8 *block, u32 run) {
    u32 half = run / 4, part = run & 3;
    struct run low = bit_fields(block + 64 * half + 32 * (part & 1), 4 * (part / 2), 15);
    struct run high = bit_fields(block + 128 + 32 * half, 2 * part, 3);
    return joined(low, shifted(high, 4));
}

QUANT(q6_k, 256, 210, 16, 32, false, true)
