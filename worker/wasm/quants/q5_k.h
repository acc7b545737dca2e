// Q5_K: Q4_K with a fifth bit apart.
#pragma once
#include "q4_k.h"

INLINE void q5_k_scales(const u8 *block, u32 stride, struct scales *s) {
    k_scales(block, stride, s);
}

INLINE struct run q5_k_codes(const u8 *block, u32 run) {
    struct run fifth = bit_fields(block + 16, run, 1);
    return joined(bit_fields(block + 48 + 32 * (run / 2), 4 * (run & 1), 15), shifted(fifth, 4));
}

QUANT(q5_k, 256, 176, 32, 0, false, true)
