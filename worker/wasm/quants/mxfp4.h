// MXFP4: 32 E2M1 numbers, doubled, and one power of two, 2^(e - 128).
#pragma once
#include "quant.h"

INLINE void mxfp4_scales(const u8 *block, u32 stride, struct scales *s) {
    v128_t e = bytes(block, stride);
    v128_t one = v_kept(wasm_i32x4_const_splat(1));
    v128_t normal = wasm_i32x4_shl(wasm_i32x4_sub(e, one), 23);
    v128_t tiny = wasm_i32x4_shl(wasm_i32x4_add(e, one), 21);  // subnormal for e = 0 and 1
    v128_t is_normal = wasm_i32x4_gt(e, one);
    one_scale(s, wasm_v128_bitselect(normal, tiny, is_normal), zeros());
}

INLINE struct run mxfp4_codes(const u8 *block, u32 run) {
    // The numbers, 12 more; minus zero counts as zero.
    v128_t table = wasm_i8x16_const(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
    return looked_up(v_kept(table), nibbles(block + 1));
}

QUANT(mxfp4, 32, 17, 32, 12, false, true)
