// TQ1_0: five ternary digits in a byte, as a fraction of 256; the last four bytes hold four.
//
// Digit p of a byte b is the first ternary digit of b * 3^p mod 256. Values are digits less 1.
#pragma once
#include "quant.h"

INLINE void tq1_0_scales(const u8 *block, u32 stride, struct scales *s) {
    same_scales(s, 8, f16s(block + 52, stride));
}

INLINE v128_t digits8(v128_t wide, v128_t power) {
    v128_t rest = V_AND(wasm_i16x8_mul(wide, power), wasm_i16x8_const_splat(255));
    return wasm_u16x8_shr(wasm_i16x8_mul(rest, wasm_i16x8_const_splat(3)), 8);
}

INLINE v128_t digits(v128_t v, v128_t low_power, v128_t high_power) {
    return wasm_u8x16_narrow_i16x8(digits8(wasm_u16x8_extend_low_u8x16(v), low_power),
                                   digits8(wasm_u16x8_extend_high_u8x16(v), high_power));
}

INLINE v128_t power_of_3(u32 p) {
    static const u16 powers[5] = {1, 3, 9, 27, 81};
    return wasm_u16x8_splat(powers[p]);
}

INLINE struct run tq1_0_codes(const u8 *block, u32 run) {
    v128_t first = wasm_v128_load(block + (run < 5 ? 0 : 32)), second = first;
    u32 p = run < 5 ? run : 2 * (run - 5), q = p + (run < 5 ? 0 : 1);
    v128_t low = power_of_3(q < 5 ? q : 0), high = low;
    if (run < 5) second = wasm_v128_load(block + 16);
    if (run == 7) {
        second = wasm_v128_load32_splat(block + 48);
        low = wasm_u16x8_const(1, 1, 1, 1, 3, 3, 3, 3);
        high = wasm_u16x8_const(9, 9, 9, 9, 27, 27, 27, 27);
    }
    return (struct run){digits(first, power_of_3(p), power_of_3(p)), digits(second, low, high)};
}

QUANT(tq1_0, 256, 54, 32, 1, false, false)
