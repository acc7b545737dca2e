// What every storage type is described by, and the few shapes of bit packing that they share.
//
// A type gives two functions. Both work on four rows at a time, a lane of a vector for each row:
//   scales: for every group of columns of a block, value = (code - offset) * scale - minimum
//   codes:  the codes of a run of 32 columns of one row, as bytes
// Codes fit 7 bits (0..127) unless the type is wide, whose codes are signed bytes with offset 0.
// The operations and their order are those of the gguf package, so that values are the same bits.
#pragma once
#include <stdbool.h>

#include "../rushlight.h"
#include "../simd_math.h"

enum { RUN = 32, GROUP_ROWS = 4, MAX_SCALES = 16 };

struct scales {
    v128_t scale[MAX_SCALES], minimum[MAX_SCALES];  // [group of columns], lanes are rows
};
struct run {
    v128_t low, high;  // columns 0..15 and 16..31
};

struct quant {
    u32 block_size, type_size;
    u32 group;   // columns that share a scale: 32 or 16
    u32 offset;  // what a code is reduced by
    bool is_wide;
    bool is_simple;  // to unpack: then one token's product is worth code of its own
    void (*scales)(const u8 *block, u32 stride, struct scales *s);
    struct run (*codes)(const u8 *block, u32 run);
};
#define QUANT(name, block_size, type_size, group, offset, is_wide, is_simple)        \
    static const struct quant name = {block_size, type_size,     group,        offset, \
                                      is_wide,    is_simple,     name##_scales, name##_codes};

// For loops over registers.
#define UNROLLED _Pragma("clang loop unroll(full)")
#define ROLLED _Pragma("clang loop unroll(disable)")
#define V_AND(a, b) wasm_v128_and(a, b)
#define V_OR(a, b) wasm_v128_or(a, b)
#define BYTES(n) v_kept(wasm_u8x16_const_splat(n))
#ifdef RELAXED
#define LOOK_UP(table, index) wasm_i8x16_relaxed_swizzle(table, index)
#else
#define LOOK_UP(table, index) wasm_i8x16_swizzle(table, index)
#endif

INLINE v128_t zeros(void) {
    return wasm_i32x4_const_splat(0);
}

typedef u32 __attribute__((aligned(1))) unaligned_u32;
typedef u16 __attribute__((aligned(1))) unaligned_u16;

INLINE u32 word(const u8 *p) {
    return *(const unaligned_u32 *)p;
}

INLINE u32 half_word(const u8 *p) {
    return *(const unaligned_u16 *)p;
}

// 32-bit words of four rows.
INLINE v128_t words(const u8 *p, u32 stride) {
    v128_t v = wasm_v128_load32_zero(p);
    v = wasm_v128_load32_lane(p + stride, v, 1);
    v = wasm_v128_load32_lane(p + 2 * stride, v, 2);
    return wasm_v128_load32_lane(p + 3 * stride, v, 3);
}

// Bytes of four rows.
INLINE v128_t bytes(const u8 *p, u32 stride) {
    return wasm_i32x4_make(p[0], p[stride], p[2 * stride], p[3 * stride]);
}

// Half-precision fields of four rows. Scales are often subnormal halves; as subnormal floats they
// would cost a processor a hundred cycles each, so none is made on the way.
INLINE v128_t f16s(const u8 *p, u32 stride) {
    v128_t v = zeros();
    v = wasm_v128_load16_lane(p, v, 0);
    v = wasm_v128_load16_lane(p + stride, v, 1);
    v = wasm_v128_load16_lane(p + 2 * stride, v, 2);
    v = wasm_v128_load16_lane(p + 3 * stride, v, 3);
    v128_t wide = wasm_i32x4_extend_low_i16x8(v);
    v128_t size = wasm_i32x4_shl(V_AND(wide, v_kept(wasm_i32x4_const_splat(0x7FFF))), 13);
    v128_t one = v_kept(wasm_i32x4_const_splat(1 << 23));  // of the exponent
    v128_t value = wasm_i32x4_add(size, v_kept(wasm_i32x4_const_splat(112 << 23)));
    v128_t least = v_kept(wasm_i32x4_const_splat(113 << 23));
    v128_t small = wasm_f32x4_sub(wasm_i32x4_add(value, one), least);
    v128_t top = v_kept(wasm_i32x4_const_splat(0x0F800000));  // infinities and NaN stay such
    v128_t more = V_AND(wasm_i32x4_ge(size, top), top);
    value = V_OR(value, wasm_i32x4_shl(more, 3));
    value = wasm_v128_bitselect(small, value, wasm_i32x4_lt(size, one));
    return V_OR(value, V_AND(wide, v_kept(wasm_i32x4_const_splat((i32)0x80000000))));
}

// Bits of every lane as a number.
INLINE v128_t field(v128_t lanes, u32 shift, u32 mask) {
    return V_AND(wasm_u32x4_shr(lanes, shift), wasm_u32x4_splat(mask));
}

INLINE v128_t number(v128_t lanes) {
    return wasm_f32x4_convert_i32x4(lanes);
}

INLINE void one_scale(struct scales *s, v128_t scale, v128_t minimum) {
    s->scale[0] = scale;
    s->minimum[0] = minimum;
}

INLINE void same_scales(struct scales *s, u32 n, v128_t scale) {
    for (u32 i = 0; i < n; i++) {
        s->scale[i] = scale;
        s->minimum[i] = zeros();
    }
}

INLINE v128_t low_nibbles(v128_t v) {
    return V_AND(v, BYTES(15));
}

INLINE v128_t high_nibbles(v128_t v) {
    return V_AND(wasm_u16x8_shr(v, 4), BYTES(15));  // no engine has a shift of bytes
}

// 16 bytes: all low halves, then all high halves.
INLINE struct run nibbles(const u8 *qs) {
    v128_t v = wasm_v128_load(qs);
    return (struct run){low_nibbles(v), high_nibbles(v)};
}

// A field of 32 bytes: bits shift.. of each.
INLINE struct run bit_fields(const u8 *qs, u32 shift, u32 mask) {
    v128_t low = wasm_u16x8_shr(wasm_v128_load(qs), shift);
    v128_t high = wasm_u16x8_shr(wasm_v128_load(qs + 16), shift);
    v128_t only = wasm_u8x16_splat(mask);
    return (struct run){V_AND(low, only), V_AND(high, only)};
}

// Bytes of all ones or zeros for the bits of a byte: looking them up takes two loads for 16
// columns, where spreading bits over a vector takes four steps of the units that are busy anyway.
#define MASK_BIT(byte, bit) ((u64)((byte) >> (bit) & 1) * 0xFF << 8 * (bit))
#define MASK(byte)                                                                   \
    (MASK_BIT(byte, 0) | MASK_BIT(byte, 1) | MASK_BIT(byte, 2) | MASK_BIT(byte, 3) | \
     MASK_BIT(byte, 4) | MASK_BIT(byte, 5) | MASK_BIT(byte, 6) | MASK_BIT(byte, 7))
#define MASKS_4(byte) MASK(byte), MASK(byte + 1), MASK(byte + 2), MASK(byte + 3)
#define MASKS_16(byte) MASKS_4(byte), MASKS_4(byte + 4), MASKS_4(byte + 8), MASKS_4(byte + 12)
#define MASKS_64(byte) \
    MASKS_16(byte), MASKS_16(byte + 16), MASKS_16(byte + 32), MASKS_16(byte + 48)
static const u64 MASKS[256] = {MASKS_64(0), MASKS_64(64), MASKS_64(128), MASKS_64(192)};

// Bit i of a word as such a byte, in column i.
INLINE struct run bit_masks(u32 bits) {
    v128_t low = wasm_v128_load64_zero(&MASKS[bits & 255]);
    v128_t high = wasm_v128_load64_zero(&MASKS[bits >> 16 & 255]);
    return (struct run){wasm_v128_load64_lane(&MASKS[bits >> 8 & 255], low, 1),
                        wasm_v128_load64_lane(&MASKS[bits >> 24], high, 1)};
}

// Values with a flag each: the flagged ones get more bits.
INLINE struct run with_bits(struct run q, struct run flags, u32 bits) {
    v128_t more = v_kept(wasm_u8x16_splat(bits));
    return (struct run){V_OR(q.low, V_AND(flags.low, more)),
                        V_OR(q.high, V_AND(flags.high, more))};
}

INLINE struct run joined(struct run a, struct run b) {
    return (struct run){V_OR(a.low, b.low), V_OR(a.high, b.high)};
}

INLINE struct run shifted(struct run q, u32 shift) {
    return (struct run){wasm_i16x8_shl(q.low, shift), wasm_i16x8_shl(q.high, shift)};
}

INLINE struct run looked_up(v128_t table, struct run index) {
    return (struct run){LOOK_UP(table, index.low), LOOK_UP(table, index.high)};
}
