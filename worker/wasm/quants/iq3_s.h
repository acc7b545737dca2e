// IQ3_S: per 4 values a 9-bit index, its top bit apart, and signs; a 4-bit scale per 32.
#pragma once
#include "iq_grid.h"

INLINE void iq3_s_scales(const u8 *block, u32 stride, struct scales *s) {
    v128_t d = f16s(block, stride), packed = words(block + 106, stride);
    for (u32 i = 0; i < 8; i++) {
        v128_t odd = wasm_i32x4_add(wasm_i32x4_shl(field(packed, 4 * i, 15), 1),
                                    wasm_i32x4_const_splat(1));
        s->scale[i] = wasm_f32x4_mul(d, number(odd));
        s->minimum[i] = zeros();
    }
}

INLINE struct run iq3_s_codes(const u8 *block, u32 run) {
    const u8 *low = block + 2 + 8 * run;
    u32 high = block[66 + run], q[8];
    for (u32 i = 0; i < 8; i++) q[i] = low[i] | (high >> i & 1) << 8;
    struct run sizes = {four_fours(IQ3_S_VECTORS, q[0], q[1], q[2], q[3]),
                        four_fours(IQ3_S_VECTORS, q[4], q[5], q[6], q[7])};
    return with_signs(sizes, word(block + 74 + 4 * run));
}

QUANT(iq3_s, 256, 110, 32, IQ_OFFSET, false, false)
