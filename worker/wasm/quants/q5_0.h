// Q5_0: 32 values of 5 bits less 16, the fifth bits apart; one scale.
#pragma once
#include "quant.h"

INLINE void q5_0_scales(const u8 *block, u32 stride, struct scales *s) {
    one_scale(s, f16s(block, stride), zeros());
}

INLINE struct run q5_0_codes(const u8 *block, u32 run) {
    return with_bits(nibbles(block + 6), bit_masks(word(block + 2)), 16);
}

QUANT(q5_0, 32, 22, 32, 16, false, true)
