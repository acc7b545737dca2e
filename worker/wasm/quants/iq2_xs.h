// IQ2_XS: per 8 values a 9-bit index and a 7-bit sign mask; a 4-bit scale per 16.
#pragma once
#include "iq_grid.h"

INLINE void iq2_xs_scales(const u8 *block, u32 stride, struct scales *s) {
    iq2_scales(block, block + 66, stride, s);
}

INLINE struct run iq2_xs_codes(const u8 *block, u32 run) {
    u32 q[4], signs = 0;
    for (u32 i = 0; i < 4; i++) {
        q[i] = half_word(block + 2 + 8 * run + 2 * i);
        signs |= (q[i] >> 9) << 7 * i;
    }
    struct run sizes = {two_eights(IQ2_XS_VECTORS, q[0] & 511, q[1] & 511),
                        two_eights(IQ2_XS_VECTORS, q[2] & 511, q[3] & 511)};
    return with_signs(sizes, even_signs(signs));
}

QUANT(iq2_xs, 256, 74, 16, IQ_OFFSET, false, false)
