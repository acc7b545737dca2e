// IQ2_S: per 8 values a 10-bit index, its top bits apart, and 8 signs; a 4-bit scale per 16.
#pragma once
#include "iq_grid.h"

INLINE void iq2_s_scales(const u8 *block, u32 stride, struct scales *s) {
    iq2_scales(block, block + 74, stride, s);
}

INLINE struct run iq2_s_codes(const u8 *block, u32 run) {
    const u8 *low = block + 2 + 4 * run;
    u32 high = block[66 + run], index[4];
    for (u32 i = 0; i < 4; i++) index[i] = low[i] | (high >> 2 * i & 3) << 8;
    struct run sizes = {two_eights(IQ2_S_VECTORS, index[0], index[1]),
                        two_eights(IQ2_S_VECTORS, index[2], index[3])};
    return with_signs(sizes, word(block + 34 + 4 * run));
}

QUANT(iq2_s, 256, 82, 16, IQ_OFFSET, false, false)
