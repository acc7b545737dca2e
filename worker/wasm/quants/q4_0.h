// Q4_0: 32 values of 4 bits less 8, one scale.
#pragma once
#include "quant.h"

INLINE void q4_0_scales(const u8 *block, u32 stride, struct scales *s) {
    one_scale(s, f16s(block, stride), zeros());
}

INLINE struct run q4_0_codes(const u8 *block, u32 run) {
    return nibbles(block + 2);
}

QUANT(q4_0, 32, 18, 32, 8, false, true)
