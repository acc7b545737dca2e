// IQ4_XS: the codes of IQ4_NL, 256 to a block; a 6-bit scale less 32 per 32, its top bits apart.
#pragma once
#include "iq4_nl.h"

INLINE void iq4_xs_scales(const u8 *block, u32 stride, struct scales *s) {
    v128_t head = words(block, stride), low = words(block + 4, stride);
    v128_t d = f16s(block, stride);
    for (u32 i = 0; i < 8; i++) {
        v128_t high = wasm_i32x4_shl(field(head, 16 + 2 * i, 3), 4);
        v128_t scale = V_OR(field(low, 4 * i, 15), high);
        scale = wasm_i32x4_sub(scale, wasm_i32x4_const_splat(32));
        s->scale[i] = wasm_f32x4_mul(d, number(scale));
        s->minimum[i] = zeros();
    }
}

INLINE struct run iq4_xs_codes(const u8 *block, u32 run) {
    return looked_up(iq4_values(), nibbles(block + 8 + 16 * run));
}

QUANT(iq4_xs, 256, 136, 32, 0, true, true)
