// Weights as float32: the same operations in the same order as the gguf package, so the same bits.
#include "unpack.h"
#include "values.h"

// Four codes, less the offset, as numbers; they sit in the low bytes of `codes`.
INLINE v128_t four_values(v128_t codes, v128_t scale, v128_t minimum) {
    v128_t wide = wasm_i32x4_extend_low_i16x8(wasm_i16x8_extend_low_i8x16(codes));
    return wasm_f32x4_sub(wasm_f32x4_mul(number(wide), scale), minimum);
}

INLINE void sixteen_values(f32 *out, v128_t codes, u32 offset, v128_t scale, v128_t minimum) {
    codes = wasm_i8x16_sub(codes, wasm_u8x16_splat(offset));
    v_store(out, four_values(codes, scale, minimum));
    v128_t next = wasm_i32x4_shuffle(codes, codes, 1, 2, 3, 0);
    v_store(out + 4, four_values(next, scale, minimum));
    next = wasm_i32x4_shuffle(codes, codes, 2, 3, 0, 1);
    v_store(out + 8, four_values(next, scale, minimum));
    next = wasm_i32x4_shuffle(codes, codes, 3, 0, 1, 2);
    v_store(out + 12, four_values(next, scale, minimum));
}

INLINE v128_t of_row(const v128_t *lanes, u32 row) {
    return wasm_v128_load32_splat((const f32 *)lanes + row);
}

INLINE void unpack(const struct quant *q, const u8 *block, u32 stride, u32 n_rows, u32 n_cols,
                   f32 *out, u32 out_cols) {
    u32 halves = RUN / q->group, lane_stride = n_rows == 1 ? 0 : stride;
    struct scales s;
    for (u32 col = 0; col < n_cols; col += q->block_size, block += q->type_size) {
        q->scales(block, lane_stride, &s);
        ROLLED for (u32 run = 0; run < q->block_size / RUN; run++) {
            u32 i = run * halves, j = i + halves - 1;
            for (u32 row = 0; row < n_rows; row++) {
                struct run codes = q->codes(block + row * stride, run);
                f32 *to = out + (usize)row * out_cols + col + run * RUN;
                sixteen_values(to, codes.low, q->offset, of_row(&s.scale[i], row),
                               of_row(&s.minimum[i], row));
                sixteen_values(to + 16, codes.high, q->offset, of_row(&s.scale[j], row),
                               of_row(&s.minimum[j], row));
            }
        }
    }
}

#define UNPACK(id, name)                                                                      \
    static void unpack_##name(const u8 *block, u32 stride, u32 n_rows, u32 n_cols, f32 *out, \
                              u32 out_cols) {                                                 \
        unpack(&name, block, stride, n_rows, n_cols, out, out_cols);                          \
    }
QUANT_TYPES(UNPACK)

static void unpack_f32(const u8 *block, u32 stride, u32 n_rows, u32 n_cols, f32 *out,
                       u32 out_cols) {
    for (u32 row = 0; row < n_rows; row++)
        __builtin_memcpy(out + (usize)row * out_cols, block + row * stride, n_cols * sizeof(f32));
}

static void unpack_f16(const u8 *block, u32 stride, u32 n_rows, u32 n_cols, f32 *out,
                       u32 out_cols) {
    for (u32 row = 0; row < n_rows; row++)
        load_f16((const u16 *)(block + row * stride), out + (usize)row * out_cols, n_cols);
}

static void unpack_bf16(const u8 *block, u32 stride, u32 n_rows, u32 n_cols, f32 *out,
                        u32 out_cols) {
    for (u32 row = 0; row < n_rows; row++) {
        const u8 *from = block + row * stride;
        u32 *to = (u32 *)(out + (usize)row * out_cols), i = 0;
        for (; i + 4 <= n_cols; i += 4)
            wasm_v128_store(to + i, wasm_i32x4_shl(wasm_u32x4_load16x4(from + 2 * i), 16));
        for (; i < n_cols; i++) to[i] = half_word(from + 2 * i) << 16;
    }
}

unpack_kernel *unpack_of(u32 type) {
#define ENTRY(id, name) [id] = unpack_##name,
    static unpack_kernel *const kernels[N_TYPES] = {
        QUANT_TYPES(ENTRY)[TYPE_F32] = unpack_f32, [TYPE_F16] = unpack_f16,
        [TYPE_BF16] = unpack_bf16};
    return kernels[type];
}

u32 row_bytes(u32 type, u32 n_cols) {
    if (type == TYPE_F32) return 4 * n_cols;
    if (type == TYPE_F16 || type == TYPE_BF16) return 2 * n_cols;
    switch (type) {
#define CASE(id, name) \
    case id:           \
        return n_cols / name.block_size * name.type_size;
        QUANT_TYPES(CASE)
    }
    __builtin_trap();
}
