// Q8_0: 32 signed bytes, one scale.
#pragma once
#include "quant.h"

INLINE void q8_0_scales(const u8 *block, u32 stride, struct scales *s) {
    one_scale(s, f16s(block, stride), zeros());
}

INLINE struct run q8_0_codes(const u8 *block, u32 run) {
    return (struct run){wasm_v128_load(block + 2), wasm_v128_load(block + 18)};
}

QUANT(q8_0, 32, 34, 32, 0, true, true)
