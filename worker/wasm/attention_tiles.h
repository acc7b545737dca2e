// The two products of attention, on a tile of keys and values that lies in the nearest cache.
//
// Rows of queries, scores and sums: scores are [key][row], so that four rows share a vector.
#pragma once
#include "kv_format.h"

#define UNROLL_2 _Pragma("clang loop unroll_count(2)")
#define UNROLL _Pragma("clang loop unroll(full)")

// Scores of four rows against two keys.
INLINE void score_4x2(const f32 *q, u32 q_stride, const f32 *k0, const f32 *k1, u32 n, f32 *s0,
                      f32 *s1) {
    v128_t a[4], b[4];
    UNROLL for (u32 r = 0; r < 4; r++) a[r] = b[r] = v_const(0);
    UNROLL_2 for (u32 d = 0; d < n; d += 4) {
        v128_t ka = v_load(k0 + d), kb = v_load(k1 + d);
        UNROLL for (u32 r = 0; r < 4; r++) {
            v128_t qr = v_load(q + r * q_stride + d);
            a[r] = v_madd(qr, ka, a[r]);
            b[r] = v_madd(qr, kb, b[r]);
        }
    }
    v_store(s0, v_sum4(a[0], a[1], a[2], a[3]));
    v_store(s1, v_sum4(b[0], b[1], b[2], b[3]));
}

// Scores of one row against four keys.
INLINE void score_1x4(const f32 *q, const f32 *const k[4], u32 n, f32 *s, u32 s_stride) {
    v128_t a[4];
    UNROLL for (u32 j = 0; j < 4; j++) a[j] = v_const(0);
    UNROLL_2 for (u32 d = 0; d < n; d += 4) {
        v128_t qd = v_load(q + d);
        UNROLL for (u32 j = 0; j < 4; j++) a[j] = v_madd(qd, v_load(k[j] + d), a[j]);
    }
    v128_t sums = v_sum4(a[0], a[1], a[2], a[3]);
    wasm_v128_store32_lane(s, sums, 0);
    wasm_v128_store32_lane(s + s_stride, sums, 1);
    wasm_v128_store32_lane(s + 2 * s_stride, sums, 2);
    wasm_v128_store32_lane(s + 3 * s_stride, sums, 3);
}

// s[j][r] = q[r] . k[j] for n_rows rows of n values (a multiple of 8) and n_keys keys.
static void score_tile(const f32 *q, u32 n_rows, const f32 *k, usize k_stride, u32 n_keys, u32 n,
                       f32 *s, u32 s_stride) {
    u32 r = 0, last = n_keys - 1;
    for (; r + 4 <= n_rows; r += 4)
        for (u32 j = 0; j < n_keys; j += 2) {
            u32 next = min_u32(j + 1, last);  // an odd last key is done twice
            score_4x2(q + r * n, n, k + j * k_stride, k + next * k_stride, n, s + j * s_stride + r,
                      s + next * s_stride + r);
        }
    for (; r < n_rows; r++)
        for (u32 j = 0; j < n_keys; j += 4) {
            const f32 *keys[4];
            UNROLL for (u32 i = 0; i < 4; i++) keys[i] = k + min_u32(j + i, last) * k_stride;
            score_1x4(q + r * n, keys, n, s + j * s_stride + r, s_stride);
        }
}

// acc[r] += sum over keys of p[j][r] v[j], for R rows and D vectors of a value.
#define MIX(R, D)                                                                                \
    INLINE void mix_##R##x##D(f32 *acc, u32 acc_stride, const f32 *p, u32 p_stride, const f32 *v, \
                              usize v_stride, u32 n_keys) {                                      \
        v128_t sum[R][D];                                                                        \
        UNROLL for (u32 r = 0; r < R; r++) UNROLL for (u32 d = 0; d < D; d++)                    \
            sum[r][d] = v_load(acc + r * acc_stride + 4 * d);                                    \
        for (u32 j = 0; j < n_keys; j++) {                                                       \
            v128_t values[D];                                                                    \
            UNROLL for (u32 d = 0; d < D; d++) values[d] = v_load(v + j * v_stride + 4 * d);     \
            UNROLL for (u32 r = 0; r < R; r++) {                                                 \
                v128_t weight = wasm_v128_load32_splat(p + j * p_stride + r);                    \
                UNROLL for (u32 d = 0; d < D; d++)                                               \
                    sum[r][d] = v_madd(weight, values[d], sum[r][d]);                            \
            }                                                                                    \
        }                                                                                        \
        UNROLL for (u32 r = 0; r < R; r++) UNROLL for (u32 d = 0; d < D; d++)                    \
            v_store(acc + r * acc_stride + 4 * d, sum[r][d]);                                    \
    }
MIX(4, 2)
MIX(4, 1)
MIX(1, 4)
MIX(1, 1)

static void mix_tile(f32 *acc, u32 n_rows, const f32 *p, u32 p_stride, const f32 *v, usize v_stride,
                     u32 n_keys, u32 n) {
    u32 r = 0;
    for (; r + 4 <= n_rows; r += 4) {
        u32 d = 0;
        f32 *sum = acc + r * n;
        for (; d + 8 <= n; d += 8) mix_4x2(sum + d, n, p + r, p_stride, v + d, v_stride, n_keys);
        for (; d < n; d += 4) mix_4x1(sum + d, n, p + r, p_stride, v + d, v_stride, n_keys);
    }
    for (; r < n_rows; r++) {
        u32 d = 0;
        f32 *sum = acc + r * n;
        for (; d + 16 <= n; d += 16) mix_1x4(sum + d, n, p + r, p_stride, v + d, v_stride, n_keys);
        for (; d < n; d += 4) mix_1x1(sum + d, n, p + r, p_stride, v + d, v_stride, n_keys);
    }
}

// Rows of a cache as float32 rows of `padded` values, zero behind the first n.
static void unpack_rows(const u8 *rows, usize row_bytes, u32 n_keys, u32 n, u32 padded, u32 kv,
                        f32 *y) {
    for (u32 j = 0; j < n_keys; j++, rows += row_bytes, y += padded) {
        load_kv(rows, y, n, kv);
        for (u32 i = n; i < padded; i++) y[i] = 0;
    }
}
