// Q4_1: 32 values of 4 bits, a scale and an addend.
#pragma once
#include "quant.h"

INLINE void q4_1_scales(const u8 *block, u32 stride, struct scales *s) {
    one_scale(s, f16s(block, stride), wasm_f32x4_neg(f16s(block + 2, stride)));
}

INLINE struct run q4_1_codes(const u8 *block, u32 run) {
    return nibbles(block + 4);
}

QUANT(q4_1, 32, 20, 32, 0, false, true)
