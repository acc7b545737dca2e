// TQ2_0: 256 values of 2 bits less 1, one scale.
#pragma once
#include "quant.h"

INLINE void tq2_0_scales(const u8 *block, u32 stride, struct scales *s) {
    same_scales(s, 8, f16s(block + 64, stride));
}

INLINE struct run tq2_0_codes(const u8 *block, u32 run) {
    return bit_fields(block + 32 * (run / 4), 2 * (run & 3), 3);
}

QUANT(tq2_0, 256, 66, 32, 1, false, true)
