// How a cache keeps values: KV_F32, KV_F16, or KV_Q8_0; see ops/kv_cache.py.
#pragma once
#include "values.h"

// A block of q8_0: a float16 scale in a word of its own, then codes of 8 bits.
enum { KV_RUN = 32, KV_BLOCK = 4 + KV_RUN };

// Bytes of n values of a cache, `kv` being one of KV_..
static inline usize kv_bytes(u32 n, u32 kv) {
    if (kv == KV_Q8_0) return (usize)n / KV_RUN * KV_BLOCK;
    return (usize)n * (kv == KV_F16 ? sizeof(u16) : sizeof(f32));
}

static void store_q8_0(const f32 *x, u8 *y, u32 n) {
    for (u32 at = 0; at < n; at += KV_RUN, y += KV_BLOCK) {
        v128_t v[8], top = v_const(0);
        for (u32 i = 0; i < 8; i++) {
            v[i] = v_load(x + at + 4 * i);
            top = wasm_f32x4_max(top, wasm_f32x4_abs(v[i]));
        }
        // What is too small to divide by counts as zero.
        f32 largest = v_max_lane(top), scale = largest / 127.0f;
        v128_t by = v_const(largest > 1e-30f ? 127.0f / largest : 0.0f);
        for (u32 i = 0; i < 8; i++)
            v[i] = wasm_i32x4_trunc_sat_f32x4(wasm_f32x4_nearest(wasm_f32x4_mul(v[i], by)));
        *(u32 *)y = s_to_f16(scale < 65504.0f ? scale : 65504.0f);
        for (u32 i = 0; i < 8; i += 4)
            wasm_v128_store(y + 4 + 4 * i,
                            wasm_i8x16_narrow_i16x8(wasm_i16x8_narrow_i32x4(v[i], v[i + 1]),
                                                    wasm_i16x8_narrow_i32x4(v[i + 2], v[i + 3])));
    }
}

static void load_q8_0(const u8 *x, f32 *y, u32 n) {
    for (u32 at = 0; at < n; at += KV_RUN, x += KV_BLOCK) {
        v128_t scale = v_const(s_from_f16(*(const u16 *)x));
        for (u32 i = 0; i < KV_RUN; i += 8) {
            v128_t codes = wasm_i16x8_load8x8(x + 4 + i);
            v128_t low = wasm_i32x4_extend_low_i16x8(codes);
            v128_t high = wasm_i32x4_extend_high_i16x8(codes);
            v_store(y + at + i, wasm_f32x4_mul(wasm_f32x4_convert_i32x4(low), scale));
            v_store(y + at + i + 4, wasm_f32x4_mul(wasm_f32x4_convert_i32x4(high), scale));
        }
    }
}

// float32 values to those of a cache.
static inline void store_kv(const f32 *x, void *y, u32 n, u32 kv) {
    if (kv == KV_Q8_0) store_q8_0(x, y, n);
    else if (kv == KV_F16) store_f16(x, y, n);
    else __builtin_memcpy(y, x, n * sizeof(f32));
}

// And back.
static inline void load_kv(const void *x, f32 *y, u32 n, u32 kv) {
    if (kv == KV_Q8_0) load_q8_0(x, y, n);
    else if (kv == KV_F16) load_f16(x, y, n);
    else __builtin_memcpy(y, x, n * sizeof(f32));
}
