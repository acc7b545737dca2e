// Products of a batch of panels with a few tokens at a time, kept in registers.
#pragma once
#include "panel.h"

enum { TILE_TOKENS = 2 };

INLINE v128_t panel_dot(v128_t codes, v128_t x, v128_t acc) {
#ifdef RELAXED
    return wasm_i32x4_relaxed_dot_i8x16_i7x16_add(x, codes, acc);
#else
    return wasm_i32x4_add(acc, wasm_i32x4_dot_i16x8(codes, x));
#endif
}

// Adds to acc[token][panel] the dots of n_vectors vectors of each panel. The loop stays one:
// unrolled, wasmtime would first load everything and then spill it.
INLINE void tile_dots(v128_t *acc, const struct panel *panels, u32 vector, u32 n_vectors,
                      const u8 *const *x, u32 n_tokens, u32 x_at) {
    ROLLED for (u32 i = 0; i < n_vectors; i++) {
        v128_t codes[BATCH];
        UNROLLED for (u32 k = 0; k < BATCH; k++) codes[k] = panels[k].codes[vector + i];
        UNROLLED for (u32 token = 0; token < n_tokens; token++) {
            v128_t part = wasm_v128_load32_splat(x[token] + x_at + 4 * i);
            UNROLLED for (u32 k = 0; k < BATCH; k++) {
                v128_t *sum = &acc[token * BATCH + k];
                *sum = panel_dot(codes[k], part, *sum);
            }
        }
    }
}

// Adds the products of n_runs runs to totals[token][panel]; `group` columns share a scale.
INLINE void tile(v128_t *totals, const struct panel *panels, const u8 *const *x, u32 n_tokens,
                 u32 n_runs, u32 group, bool split) {
    u32 n = n_tokens * BATCH, n_parts = RUN / group, n_vectors = PANEL_VECTORS / n_parts;
    v128_t total[TILE_TOKENS * BATCH];
    UNROLLED for (u32 i = 0; i < n; i++) total[i] = totals[i];
    for (u32 run = 0, at = 0, vector = 0; run < n_runs; run++, at += X_BLOCK) {
        UNROLLED for (u32 part = 0; part < n_parts; part++, vector += n_vectors) {
            v128_t acc[TILE_TOKENS * BATCH];
            UNROLLED for (u32 i = 0; i < n; i++) acc[i] = zeros();
            tile_dots(acc, panels, vector, n_vectors, x, n_tokens, at + 4 * n_vectors * part);
            if (split) {
                UNROLLED for (u32 i = 0; i < n; i++) acc[i] = wasm_i32x4_shl(acc[i], 1);
                vector += n_vectors;
                tile_dots(acc, panels, vector, n_vectors, x, n_tokens, at);
            }
            u32 scale = run * n_parts + part;
            UNROLLED for (u32 i = 0; i < n; i++) {
                const struct panel *panel = &panels[i % BATCH];
                total[i] = scaled(total[i], acc[i], panel->scale[scale], panel->minimum[scale],
                                  x[i / BATCH] + at, n_parts == 1 ? 3 : 1 + part);
            }
        }
    }
    UNROLLED for (u32 i = 0; i < n; i++) totals[i] = total[i];
}

// The same for all tokens; x_at is where the runs start in a row of x.
INLINE void tiles(v128_t *totals, const struct panel *panels, const struct product *p, u32 x_at,
                  u32 n_runs, u32 group, bool split) {
    u32 token = 0;
    for (; token + TILE_TOKENS <= p->n_tokens; token += TILE_TOKENS) {
        const u8 *rows[TILE_TOKENS];
        UNROLLED for (u32 i = 0; i < TILE_TOKENS; i++) rows[i] = x_row(p, token + i) + x_at;
        tile(totals + token * BATCH, panels, rows, TILE_TOKENS, n_runs, group, split);
    }
    for (; token < p->n_tokens; token++) {
        const u8 *row = x_row(p, token) + x_at;
        tile(totals + token * BATCH, panels, &row, 1, n_runs, group, split);
    }
}
