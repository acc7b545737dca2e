// One token's product with a quantised weight: four rows at once, straight from the file's blocks.
#pragma once
#include "product.h"

// total + the products of a run of four rows and x.
INLINE v128_t matvec_run(const struct quant *q, enum dots how, v128_t total, const u8 *block,
                         u32 stride, u32 run, const struct scales *s, const u8 *x) {
    v128_t low[GROUP_ROWS], high[GROUP_ROWS];
    UNROLLED for (u32 row = 0; row < GROUP_ROWS; row++) {
        struct run codes = q->codes(block + row * stride, run);
        low[row] = dot_16(codes.low, x, zeros(), how);
        v128_t before = q->group == RUN ? low[row] : zeros();
        high[row] = dot_16(codes.high, x + X_CODES / 2, before, how);
    }
    if (q->group == RUN)
        return scaled(total, sum_4(high), s->scale[run], s->minimum[run], x, 3);
    u32 i = 2 * run;
    total = scaled(total, sum_4(low), s->scale[i], s->minimum[i], x, 1);
    return scaled(total, sum_4(high), s->scale[i + 1], s->minimum[i + 1], x, 2);
}

INLINE void matvec(const struct quant *q, enum dots how, const struct product *p, u32 first,
                   u32 stop) {
    for (u32 index = first; index < stop; index++) {
        struct group g = group_at(p, index);
        if (index + 1 < stop) touch(p, index + 1);
        const u8 *block = g.weight, *x = x_row(p, 0);
        v128_t total = zeros();
        struct scales s;
        for (u32 col = 0; col < p->n_cols; col += q->block_size, block += q->type_size) {
            q->scales(block, g.stride, &s);
            fold_offset(q, &s, how);
            if (q->is_wide) {  // three ways of its codes: code enough
                ROLLED for (u32 run = 0; run < q->block_size / RUN; run++, x += X_BLOCK)
                    total = matvec_run(q, how, total, block, g.stride, run, &s, x);
                continue;
            }
            UNROLLED for (u32 run = 0; run < q->block_size / RUN; run++, x += X_BLOCK)
                total = matvec_run(q, how, total, block, g.stride, run, &s, x);
        }
        put(p, &g, 0, total);
    }
}
