// IQ4_NL: 32 codes of 4 bits that stand for uneven steps, one scale.
#pragma once
#include "quant.h"

INLINE v128_t iq4_values(void) {
    return v_kept(wasm_i8x16_const(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69,
                                 89, 113));
}

INLINE void iq4_nl_scales(const u8 *block, u32 stride, struct scales *s) {
    one_scale(s, f16s(block, stride), zeros());
}

INLINE struct run iq4_nl_codes(const u8 *block, u32 run) {
    return looked_up(iq4_values(), nibbles(block + 2));
}

QUANT(iq4_nl, 32, 18, 32, 0, true, true)
