// Q5_1: 32 values of 5 bits, the fifth bits apart; a scale and an addend.
#pragma once
#include "quant.h"

INLINE void q5_1_scales(const u8 *block, u32 stride, struct scales *s) {
    one_scale(s, f16s(block, stride), wasm_f32x4_neg(f16s(block + 2, stride)));
}

INLINE struct run q5_1_codes(const u8 *block, u32 run) {
    return with_bits(nibbles(block + 8), bit_masks(word(block + 4)), 16);
}

QUANT(q5_1, 32, 24, 32, 0, false, true)
