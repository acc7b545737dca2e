// IQ2_XXS: per 32 values four 8-bit indices, four 7-bit sign masks and a 4-bit scale.
#pragma once
#include "iq_grid.h"

INLINE void iq2_xxs_scales(const u8 *block, u32 stride, struct scales *s) {
    v128_t d = f16s(block, stride);
    for (u32 i = 0; i < 8; i++) {
        v128_t scale = wasm_u32x4_shr(words(block + 6 + 8 * i, stride), 28);
        s->scale[i] = half_scale(d, scale, 0.25f);
        s->minimum[i] = zeros();
    }
}

INLINE struct run iq2_xxs_codes(const u8 *block, u32 run) {
    const u8 *index = block + 2 + 8 * run;
    struct run sizes = {two_eights(IQ2_XXS_VECTORS, index[0], index[1]),
                        two_eights(IQ2_XXS_VECTORS, index[2], index[3])};
    return with_signs(sizes, even_signs(word(index + 4)));
}

QUANT(iq2_xxs, 256, 66, 32, IQ_OFFSET, false, false)
