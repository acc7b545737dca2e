// IQ1_S: per 8 values an 11-bit index; per 32 a 3-bit scale and the sign of a shift by 1/8.
//
// Codes count eighths, so that the shift is one: value = (8 * grid + shift) * (scale / 8).
#pragma once
#include "iq_grid.h"

// 16 codes: 8 * (-1, 0 or 1), and what the shift and the offset add.
INLINE v128_t iq1_values(u32 first, u32 second, v128_t addend) {
    return wasm_i8x16_add(two_eights(IQ1_VECTORS, first, second), addend);
}

// What a code counts more than 8 * (code of the grid): -8, the offset, and 1 or -1.
INLINE u32 iq1_addend(bool is_low) {
    return IQ_OFFSET - 8 + (is_low ? -1 : 1);
}

// d * (2 * scale + 1) / 8 for 3-bit scales.
INLINE v128_t iq1_scale(v128_t d, v128_t scale) {
    v128_t odd = wasm_i32x4_add(wasm_i32x4_shl(scale, 1), wasm_i32x4_const_splat(1));
    return wasm_f32x4_mul(wasm_f32x4_mul(d, number(odd)), wasm_f32x4_const_splat(0.125f));
}

INLINE void iq1_s_scales(const u8 *block, u32 stride, struct scales *s) {
    v128_t d = f16s(block, stride);
    for (u32 i = 0; i < 8; i++) {
        v128_t pair = words(block + 34 + 4 * (i / 2), stride);
        s->scale[i] = iq1_scale(d, field(pair, 12 + 16 * (i & 1), 7));
        s->minimum[i] = zeros();
    }
}

INLINE struct run iq1_s_codes(const u8 *block, u32 run) {
    const u8 *low = block + 2 + 4 * run;
    u32 high = half_word(block + 34 + 2 * run), index[4];
    for (u32 i = 0; i < 4; i++) index[i] = low[i] | (high >> 3 * i & 7) << 8;
    v128_t addend = wasm_u8x16_splat(iq1_addend(high & 0x8000));
    return (struct run){iq1_values(index[0], index[1], addend),
                        iq1_values(index[2], index[3], addend)};
}

QUANT(iq1_s, 256, 50, 32, IQ_OFFSET, false, false)
