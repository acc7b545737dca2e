// IQ3_XXS: per 4 values an 8-bit index; per 32 four 7-bit sign masks and a 4-bit scale.
#pragma once
#include "iq_grid.h"

INLINE void iq3_xxs_scales(const u8 *block, u32 stride, struct scales *s) {
    v128_t d = f16s(block, stride);
    for (u32 i = 0; i < 8; i++) {
        v128_t scale = wasm_u32x4_shr(words(block + 66 + 4 * i, stride), 28);
        s->scale[i] = half_scale(d, scale, 0.5f);
        s->minimum[i] = zeros();
    }
}

INLINE struct run iq3_xxs_codes(const u8 *block, u32 run) {
    const u8 *q = block + 2 + 8 * run;
    struct run sizes = {four_fours(IQ3_XXS_VECTORS, q[0], q[1], q[2], q[3]),
                        four_fours(IQ3_XXS_VECTORS, q[4], q[5], q[6], q[7])};
    return with_signs(sizes, even_signs(word(block + 66 + 4 * run)));
}

QUANT(iq3_xxs, 256, 98, 32, IQ_OFFSET, false, false)
