// The codebooks as vectors of values, spelt out by the compiler.
#include "grid_words.h"
#include "grid_words_iq1.h"
#include "iq_grid.h"

// Value i of a vector of eight codes of 2 bits, or of four nibbles, in byte i.
#define CODE_2(word, i) ((u64)((word) >> 2 * (i) & 3))
#define CODE_4(word, i) ((u32)((word) >> 4 * (i) & 7))
#define EIGHT(worth, w)                                                                   \
    (worth(CODE_2(w, 0)) | worth(CODE_2(w, 1)) << 8 | worth(CODE_2(w, 2)) << 16 |         \
     worth(CODE_2(w, 3)) << 24 | worth(CODE_2(w, 4)) << 32 | worth(CODE_2(w, 5)) << 40 |  \
     worth(CODE_2(w, 6)) << 48 | worth(CODE_2(w, 7)) << 56),
#define FOUR(worth, w)                                                                    \
    (worth(CODE_4(w, 0)) | worth(CODE_4(w, 1)) << 8 | worth(CODE_4(w, 2)) << 16 |         \
     worth(CODE_4(w, 3)) << 24),

#define IQ2_WORTH(code) (8 + 17 * (code & 1) + 35 * (code >> 1))  // 8, 25, 43
#define IQ1_WORTH(code) (8 * code)
#define IQ3_XXS_WORTH(code) (4 + 8 * code + 2 * (code == 7))  // 4, 12 .. 52, 62
#define IQ3_S_WORTH(code) (1 + 2 * code)

#define IQ2(word) EIGHT(IQ2_WORTH, word)
#define IQ1(word) EIGHT(IQ1_WORTH, word)
#define IQ3_XXS(word) FOUR(IQ3_XXS_WORTH, word)
#define IQ3_S(word) FOUR(IQ3_S_WORTH, word)

const u64 IQ2_XXS_VECTORS[256] = {GRID_IQ2_XXS(IQ2)};
const u64 IQ2_XS_VECTORS[512] = {GRID_IQ2_XS(IQ2)};
const u64 IQ2_S_VECTORS[1024] = {GRID_IQ2_S(IQ2)};
const u64 IQ1_VECTORS[2048] = {GRID_IQ1_S(IQ1)};
const u32 IQ3_XXS_VECTORS[256] = {GRID_IQ3_XXS(IQ3_XXS)};
const u32 IQ3_S_VECTORS[512] = {GRID_IQ3_S(IQ3_S)};
