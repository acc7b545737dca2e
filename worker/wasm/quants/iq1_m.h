// IQ1_M: as IQ1_S with a scale per 16 and a shift per 8.
//
// The half-precision scale is scattered: its nibbles are the tops of the four scale words.
#pragma once
#include "iq1_s.h"

INLINE v128_t iq1_m_d(const u8 *block, u32 stride) {
    u8 d[8];
    for (u32 row = 0; row < GROUP_ROWS; row++) {
        const u8 *tops = block + row * stride + 48;
        d[2 * row] = tops[1] >> 4 | (tops[3] & 0xF0);
        d[2 * row + 1] = tops[5] >> 4 | (tops[7] & 0xF0);
    }
    return f16s(d, 2);
}

INLINE void iq1_m_scales(const u8 *block, u32 stride, struct scales *s) {
    v128_t d = iq1_m_d(block, stride);
    for (u32 i = 0; i < 16; i++) {
        v128_t pair = words(block + 48 + 4 * (i / 8), stride);
        s->scale[i] = iq1_scale(d, field(pair, 3 * (i & 3) + 16 * (i / 4 & 1), 7));
        s->minimum[i] = zeros();
    }
}

// The addends of two vectors of eight.
INLINE v128_t iq1_m_addends(u32 first, u32 second) {
    v128_t a = wasm_u8x16_splat(iq1_addend(first & 8));
    v128_t b = wasm_u8x16_splat(iq1_addend(second & 8));
    return wasm_i64x2_shuffle(a, b, 0, 2);
}

INLINE struct run iq1_m_codes(const u8 *block, u32 run) {
    const u8 *low = block + 4 * run;
    u32 high = half_word(block + 32 + 2 * run), index[4];
    for (u32 i = 0; i < 4; i++) index[i] = low[i] | (high >> 4 * i & 7) << 8;
    return (struct run){
        iq1_values(index[0], index[1], iq1_m_addends(high, high >> 4)),
        iq1_values(index[2], index[3], iq1_m_addends(high >> 8, high >> 12))};
}

QUANT(iq1_m, 256, 56, 16, IQ_OFFSET, false, false)
