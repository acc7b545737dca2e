// What the products share: a quantised activation, integer dots, sums of four rows.
//
// A quantised activation is a row of blocks, each 32 codes of -127..127, then f32 x 4: the scale,
// the sums of the first and last 16 codes, the sum of all. Codes are bytes where the machine has a
// dot of bytes (relaxed SIMD), else 16 bits wide.
#pragma once
#include "quants/quant.h"

#ifdef RELAXED
enum { HAS_BYTE_DOTS = true, X_CODES = RUN };
#else
enum { HAS_BYTE_DOTS = false, X_CODES = 2 * RUN };
#endif
enum { X_BLOCK = X_CODES + 16, CACHE_LINE = 64, TOUCH_BYTES = 1 << 14 };
_Static_assert((int)X_BLOCK <= (int)XQ_BLOCK_BYTES, "the planner's room for a block");

// How a machine multiplies codes by bytes. Codes of 7 bits are the same on all. What relaxed SIMD
// makes of 8 bits is the machine's choice: it may take them as signed (Arm), as unsigned (x86 with
// VNNI), or as unsigned with pairs that saturate (x86 before), and then 16 bits are used.
enum dots { NARROW, WIDE_SIGNED, WIDE_UNSIGNED, WIDE_16 };

struct product {
    const u8 *x;  // rows of f32, or of blocks of codes
    const u8 *weight;
    const f32 *bias, *residual;
    f32 *y;
    u32 n_tokens, n_rows, n_cols, y_cols, row_bytes, x_bytes, type;
    const u32 *x_rows, *y_rows;  // of each token; absent: one after the other
};

INLINE const u8 *x_row(const struct product *p, u32 token) {
    return p->x + (usize)(p->x_rows ? p->x_rows[token] : token) * p->x_bytes;
}

// Weights are taken by groups: four rows, and at the end of a matrix one row four times over.
struct group {
    const u8 *weight;
    u32 stride, row, n_rows;
};

INLINE u32 n_groups(u32 n_rows) { return n_rows / GROUP_ROWS + n_rows % GROUP_ROWS; }

INLINE struct group group_at(const struct product *p, u32 index) {
    u32 n_full = p->n_rows / GROUP_ROWS;
    if (index < n_full) {
        u32 row = index * GROUP_ROWS;
        return (struct group){p->weight + (usize)row * p->row_bytes, p->row_bytes, row, GROUP_ROWS};
    }
    u32 row = n_full * GROUP_ROWS + index - n_full;
    return (struct group){p->weight + (usize)row * p->row_bytes, 0, row, 1};
}

// Groups that are unpacked together for many tokens; where fewer are left, the last one is there
// several times.
enum { BATCH = 4 };
struct batch {
    struct group group[BATCH];
    u32 n;
};

INLINE struct batch batch_at(const struct product *p, u32 first, u32 stop) {
    struct batch b = {.n = min_u32(BATCH, stop - first)};
    for (u32 i = 0; i < BATCH; i++) b.group[i] = group_at(p, first + min_u32(i, b.n - 1));
    return b;
}

// Reads a word of each cache line of a group: it is on its way while the one before is multiplied.
// Long rows are streams that the machine foresees by itself.
INLINE void touch(const struct product *p, u32 index) {
    struct group g = group_at(p, index);
    u32 n_bytes = g.n_rows * p->row_bytes, seen = 0;
    if (n_bytes > TOUCH_BYTES) return;
    for (u32 at = 0; at < n_bytes; at += CACHE_LINE) seen |= g.weight[at];
    __asm__ volatile("" ::"r"(seen));
}

// y of a group and token; bias and residual join at the end.
INLINE void put(const struct product *p, const struct group *g, u32 token, v128_t sums) {
    usize at = (usize)(p->y_rows ? p->y_rows[token] : token) * p->y_cols + g->row;
    if (g->n_rows == GROUP_ROWS) {
        if (p->bias) sums = wasm_f32x4_add(sums, v_load(p->bias + g->row));
        if (p->residual) sums = wasm_f32x4_add(sums, v_load(p->residual + at));
        v_store(p->y + at, sums);
        return;
    }
    f32 sum = wasm_f32x4_extract_lane(sums, 0);
    if (p->bias) sum += p->bias[g->row];
    if (p->residual) sum += p->residual[at];
    p->y[at] = sum;
}

INLINE v128_t add3(v128_t a, v128_t b, v128_t c) { return wasm_i32x4_add(wasm_i32x4_add(a, b), c); }

INLINE v128_t low_wide(v128_t codes, enum dots how) {
    return how == NARROW ? wasm_u16x8_extend_low_u8x16(codes) : wasm_i16x8_extend_low_i8x16(codes);
}

INLINE v128_t high_wide(v128_t codes, enum dots how) {
    return how == NARROW ? wasm_u16x8_extend_high_u8x16(codes)
                         : wasm_i16x8_extend_high_i8x16(codes);
}

// acc + codes * x, for 16 columns; x points to their codes.
INLINE v128_t dot_16(v128_t codes, const u8 *x, v128_t acc, enum dots how) {
#ifdef RELAXED
    if (how == WIDE_UNSIGNED) codes = wasm_v128_xor(codes, BYTES(128));
    if (how != WIDE_16) {
        return wasm_i32x4_relaxed_dot_i8x16_i7x16_add(wasm_v128_load(x), codes, acc);
    }
    v128_t x0 = wasm_i16x8_load8x8(x), x1 = wasm_i16x8_load8x8(x + 8);
#else
    v128_t x0 = wasm_v128_load(x), x1 = wasm_v128_load(x + 16);
#endif
    return add3(acc, wasm_i32x4_dot_i16x8(low_wide(codes, how), x0),
                wasm_i32x4_dot_i16x8(high_wide(codes, how), x1));
}

// Sums of four vectors, as one vector.
INLINE v128_t sum_4(const v128_t *v) {
    v128_t ab = wasm_i32x4_add(wasm_i32x4_shuffle(v[0], v[1], 0, 4, 1, 5),
                               wasm_i32x4_shuffle(v[0], v[1], 2, 6, 3, 7));
    v128_t cd = wasm_i32x4_add(wasm_i32x4_shuffle(v[2], v[3], 0, 4, 1, 5),
                               wasm_i32x4_shuffle(v[2], v[3], 2, 6, 3, 7));
    return wasm_i32x4_add(wasm_i64x2_shuffle(ab, cd, 0, 2), wasm_i64x2_shuffle(ab, cd, 1, 3));
}

// total + scale of x * (scale * dots - minimum * sum of x); `sum` says which of the block's sums.
INLINE v128_t scaled(v128_t total, v128_t dots, v128_t scale, v128_t minimum, const u8 *x,
                     u32 sum) {
    const u8 *head = x + X_CODES;
    v128_t value = wasm_f32x4_mul(wasm_f32x4_convert_i32x4(dots), scale);
    value = v_sub_mul(value, minimum, wasm_v128_load32_splat(head + 4 * sum));
    return v_madd(value, wasm_v128_load32_splat(head), total);
}

// What a code is too large by counts as a minimum.
INLINE void fold_offset(const struct quant *q, struct scales *s, enum dots how) {
    u32 offset = how == WIDE_UNSIGNED ? 128 : q->offset;
    if (!offset) return;
    v128_t by = v_kept(wasm_f32x4_splat((f32)offset));
    for (u32 i = 0; i < q->block_size / q->group; i++)
        s->minimum[i] = v_madd(s->scale[i], by, s->minimum[i]);
}

// Which of the relaxed dots this machine has, for codes of 8 bits.
INLINE enum dots wide_dots(void) {
#ifdef RELAXED
    v128_t a = wasm_i8x16_splat(127), b = wasm_i8x16_splat(-1);
    __asm__("" : "+r"(a), "+r"(b));  // found out at run time
    i32 sum = wasm_i32x4_extract_lane(wasm_i32x4_relaxed_dot_i8x16_i7x16_add(a, b, zeros()), 0);
    if (sum == -4 * 127) return WIDE_SIGNED;
    return sum == 4 * 127 * 255 ? WIDE_UNSIGNED : WIDE_16;
#else
    return WIDE_16;
#endif
}
