// What a compiler takes for granted and no library gives here: the product of two 128-bit numbers,
// which it makes of a sum over a loop where addresses have 64 bits.
#ifdef __wasm64__
#include "rushlight.h"

typedef union {
    __int128 whole;
    struct { u64 low, high; };
} wide;

__int128 __multi3(__int128 a, __int128 b) {
    wide x = {.whole = a}, y = {.whole = b}, product;
    u64 x0 = (u32)x.low, x1 = x.low >> 32, y0 = (u32)y.low, y1 = y.low >> 32;
    u64 low = x0 * y0;
    u64 middle = (low >> 32) + (u32)(x0 * y1) + (u32)(x1 * y0);
    product.low = (u32)low | middle << 32;
    product.high = x1 * y1 + (x0 * y1 >> 32) + (x1 * y0 >> 32) + (middle >> 32);
    product.high += x.high * y.low + x.low * y.high;
    return product.whole;
}
#endif
