// IQ3_XXS: per 4 values an 8-bit index; per 32 four 7-bit sign masks and a 4-bit scale.
#pragma once
#include "iq_grid.h"

INLINE void iq3_xxs_scales(const u8 *block, u32 stride, struct scales *s) {
    v128_t d = f16s(block, stride);
    for (u32 i = 0; i < 8; i++) {
        v128_t scale = wasm_u32x4_shr(words(block + 66 + 4 * i, stride), 28);
        s->scale[i] = half_scale(d, scale, 0.5f);
        s->minimum[i] = zeros();
    }
}

INLINE struct run iq3_xxs_codes(const u8 *block, u32 run) {
    const u8 *q = block + 2 + 8 * run;
    const u16 *grid = GRID_IQ3_XXS;
    struct run codes = {iq3_codes(grid[q[0]], grid[q[1]], grid[q[2]], grid[q[3]]),
                        iq3_codes(grid[q[4]], grid[q[5]], grid[q[6]], grid[q[7]])};
    v128_t worth = wasm_i8x16_const(4, 12, 20, 28, 36, 44, 52, 62, 0, 0, 0, 0, 0, 0, 0, 0);
    return with_signs(looked_up(worth, codes), even_signs(word(block + 66 + 4 * run)));
}

QUANT(iq3_xxs, 256, 98, 32, IQ_OFFSET, false, false)
