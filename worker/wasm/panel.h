// Weights of a group unpacked for many tokens: four rows side by side in every vector.
//
// A vector holds 4 columns (as bytes) or 2 (as 16 bits) of each of the four rows, so a dot with as
// many columns of one token, repeated, gives four sums of the four rows and nothing is added up
// across a vector.
#pragma once
#include "product.h"

#ifdef RELAXED
enum { PANEL_COLS = 4 };
#else
enum { PANEL_COLS = 2 };
#endif
enum {
    PANEL_VECTORS = RUN / PANEL_COLS,  // of a run; codes that are split in two take twice as many
    PANEL_RUNS = 32,                   // unpacked at a time: a batch fits a core's first cache
};

struct panel {
    v128_t scale[2 * PANEL_RUNS], minimum[2 * PANEL_RUNS];  // lanes are rows
    v128_t codes[PANEL_RUNS * 16];
};

// Four rows of four words, turned into four words of four rows.
INLINE void turn(v128_t *out, const v128_t *rows) {
    v128_t a = wasm_i32x4_shuffle(rows[0], rows[1], 0, 4, 1, 5);
    v128_t b = wasm_i32x4_shuffle(rows[2], rows[3], 0, 4, 1, 5);
    v128_t c = wasm_i32x4_shuffle(rows[0], rows[1], 2, 6, 3, 7);
    v128_t d = wasm_i32x4_shuffle(rows[2], rows[3], 2, 6, 3, 7);
    out[0] = wasm_i64x2_shuffle(a, b, 0, 2);
    out[1] = wasm_i64x2_shuffle(a, b, 1, 3);
    out[2] = wasm_i64x2_shuffle(c, d, 0, 2);
    out[3] = wasm_i64x2_shuffle(c, d, 1, 3);
}

#ifdef RELAXED
// Whether codes are split into two of 7 bits: all but the last bit, and that.
INLINE bool is_split(enum dots how) { return how == WIDE_16; }

// 16 columns of four rows.
INLINE void pack_16(v128_t *out, const v128_t *rows, enum dots how) {
    v128_t part[GROUP_ROWS];
    if (how == NARROW || how == WIDE_SIGNED) {
        turn(out, rows);
        return;
    }
    UNROLLED for (u32 row = 0; row < GROUP_ROWS; row++) {
        part[row] = wasm_v128_xor(rows[row], BYTES(128));
        if (is_split(how)) part[row] = V_AND(wasm_u16x8_shr(part[row], 1), BYTES(127));
    }
    turn(out, part);
    if (!is_split(how)) return;
    UNROLLED for (u32 row = 0; row < GROUP_ROWS; row++) part[row] = V_AND(rows[row], BYTES(1));
    turn(out + PANEL_VECTORS, part);
}
#else
INLINE bool is_split(enum dots how) { return false; }

INLINE void pack_16(v128_t *out, const v128_t *rows, enum dots how) {
    v128_t part[GROUP_ROWS];
    UNROLLED for (u32 row = 0; row < GROUP_ROWS; row++) part[row] = low_wide(rows[row], how);
    turn(out, part);
    UNROLLED for (u32 row = 0; row < GROUP_ROWS; row++) part[row] = high_wide(rows[row], how);
    turn(out + 4, part);
}
#endif

// Unpacks n_runs runs of a group from `block` on.
INLINE void pack(const struct quant *q, enum dots how, struct panel *panel, const u8 *block,
                 u32 stride, u32 n_runs) {
    u32 block_runs = q->block_size / RUN, n_scales = q->block_size / q->group;
    u32 n_vectors = is_split(how) ? 2 * PANEL_VECTORS : PANEL_VECTORS;
    v128_t *out = panel->codes, *scale = panel->scale, *minimum = panel->minimum;
    struct scales s;
    for (u32 start = 0; start < n_runs; start += block_runs, block += q->type_size) {
        q->scales(block, stride, &s);
        fold_offset(q, &s, is_split(how) ? WIDE_UNSIGNED : how);
        for (u32 i = 0; i < n_scales; i++) {
            *scale++ = s.scale[i];
            *minimum++ = s.minimum[i];
        }
        ROLLED for (u32 run = 0; run < block_runs; run++, out += n_vectors) {
            v128_t low[GROUP_ROWS], high[GROUP_ROWS];
            UNROLLED for (u32 row = 0; row < GROUP_ROWS; row++) {
                struct run codes = q->codes(block + row * stride, run);
                low[row] = codes.low;
                high[row] = codes.high;
            }
            pack_16(out, low, how);
            pack_16(out + PANEL_VECTORS / 2, high, how);
        }
    }
}

// Packs a group of a matrix of one type; `how` for types whose codes are wide.
typedef void pack_kernel(struct panel *panel, const u8 *block, u32 stride, u32 n_runs,
                         enum dots how);
