// Q3_K: 256 values of 3 bits less 4, the third bit apart; a 6-bit scale less 32 per 16.
//
// Twelve bytes hold the sixteen scales: nibbles of the first eight, low halves first, and above
// them 2-bit numbers of the last four, lowest bits first.
#pragma once
#include "quant.h"

INLINE void q3_k_scales(const u8 *block, u32 stride, struct scales *s) {
    v128_t d = f16s(block + 108, stride), top = words(block + 104, stride);
    for (u32 i = 0; i < 16; i++) {
        u32 byte = 8 * (i & 3);
        v128_t low = field(words(block + 96 + (i & 4), stride), byte + 4 * (i / 8), 15);
        v128_t high = wasm_i32x4_shl(field(top, byte + 2 * (i / 4), 3), 4);
        v128_t scale = wasm_i32x4_sub(V_OR(low, high), wasm_i32x4_const_splat(32));
        s->scale[i] = wasm_f32x4_mul(d, number(scale));
        s->minimum[i] = zeros();
    }
}

INLINE struct run q3_k_codes(const u8 *block, u32 run) {
    struct run third = bit_fields(block, run, 1);
    return joined(bit_fields(block + 32 + 32 * (run / 4), 2 * (run & 3), 3), shifted(third, 2));
}

QUANT(q3_k, 256, 110, 16, 4, false, true)
