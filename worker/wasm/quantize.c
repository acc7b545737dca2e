// Activations as codes of 8 bits: per 32 columns a scale, and the sums that minimums multiply.
#include "product.h"
#include "values.h"

INLINE f32 sum_of(v128_t a, v128_t b) { return v_sum(wasm_f32x4_add(a, b)); }

INLINE void quantize_block(const f32 *x, u8 *out) {
    v128_t v[8], top = zeros();
    UNROLLED for (u32 i = 0; i < 8; i++) {
        v[i] = v_load(x + 4 * i);
        top = wasm_f32x4_max(top, wasm_f32x4_abs(v[i]));
    }
    f32 largest = v_max_lane(top);
    // What is too small to divide by counts as zero; a NaN stays one in the scale.
    v128_t by = v_const(largest > 1e-30f ? 127.0f / largest : 0.0f);
    v128_t codes[8], sums[4];
    UNROLLED for (u32 i = 0; i < 8; i++) {
        v[i] = wasm_f32x4_nearest(wasm_f32x4_mul(v[i], by));
        codes[i] = wasm_i32x4_trunc_sat_f32x4(v[i]);
    }
    UNROLLED for (u32 i = 0; i < 4; i++) {
        sums[i] = wasm_f32x4_add(v[2 * i], v[2 * i + 1]);
        codes[i] = wasm_i16x8_narrow_i32x4(codes[2 * i], codes[2 * i + 1]);
    }
#ifdef RELAXED
    wasm_v128_store(out, wasm_i8x16_narrow_i16x8(codes[0], codes[1]));
    wasm_v128_store(out + 16, wasm_i8x16_narrow_i16x8(codes[2], codes[3]));
#else
    UNROLLED for (u32 i = 0; i < 4; i++) wasm_v128_store(out + 16 * i, codes[i]);
#endif
    f32 low = sum_of(sums[0], sums[1]), high = sum_of(sums[2], sums[3]);
    wasm_v128_store(out + X_CODES, wasm_f32x4_make(largest / 127.0f, low, high, low + high));
}

void k_quantize(const struct quantize_args *a, struct team *t) {
    // Rows follow each other without a gap, so only blocks count.
    u32 n_blocks = rows_of(t, a->uses_n_out) * (a->n_cols / RUN);
    u32 per = SHARE_VALUES / RUN, n_shares = div_up(n_blocks, per);
    for (u32 share; (share = next_chunk(t, n_shares)) < n_shares;) {
        u32 stop = min_u32((share + 1) * per, n_blocks);
        for (u32 i = share * per; i < stop; i++)
            quantize_block(f32_at(a->x) + (usize)i * RUN, (u8 *)at(a->xq) + (usize)i * X_BLOCK);
    }
}
