// Depthwise causal convolution over tokens; the inputs before the first one are the state.
#include "values.h"

enum { SHARE_COLS = 64 };

// Row i of the inputs: those kept from before, then x.
static inline f32 *input_row(f32 *state, f32 *x, u32 n_kept, u32 n_cols, u32 i) {
    return i < n_kept ? state + (usize)i * n_cols : x + (usize)(i - n_kept) * n_cols;
}

static void conv_cols(const struct conv_args *a, struct team *t, u32 first, u32 n) {
    u32 n_kept = a->n_taps - 1, n_tokens = t->step->n_tokens;
    f32 *state = state_at(t, a->state), *x = f32_at(a->x), *taps = t->scratch;
    // Tap by tap, so that neighbouring columns lie side by side.
    for (u32 j = 0; j < a->n_taps; j++)
        for (u32 c = 0; c < n; c++)
            taps[j * SHARE_COLS + c] = f32_at(a->weight)[(usize)(first + c) * a->n_taps + j];
    for (u32 row = 0; row < n_tokens; row++) {
        f32 *y = f32_at(a->y) + (usize)row * a->n_cols + first;
        for (u32 c = 0; c < n; c++) y[c] = a->bias ? f32_at(a->bias)[first + c] : 0;
        for (u32 j = 0; j < a->n_taps; j++) {
            const f32 *in = input_row(state, x, n_kept, a->n_cols, row + j) + first;
            const f32 *tap = taps + j * SHARE_COLS;
            u32 c = 0;
            for (; c + 4 <= n; c += 4)
                v_store(y + c, v_madd(v_load(tap + c), v_load(in + c), v_load(y + c)));
            for (; c < n; c++) y[c] += tap[c] * in[c];
        }
    }
    for (u32 i = 0; i < n_kept; i++) {
        const f32 *in = input_row(state, x, n_kept, a->n_cols, i + n_tokens) + first;
        __builtin_memcpy(state + (usize)i * a->n_cols + first, in, n * sizeof(f32));
    }
}

void k_conv(const struct conv_args *a, struct team *t) {
    u32 n_shares = div_up(a->n_cols, SHARE_COLS);
    for (u32 i; (i = next_chunk(t, n_shares)) < n_shares;) {
        u32 first = i * SHARE_COLS;
        conv_cols(a, t, first, min_u32(SHARE_COLS, a->n_cols - first));
    }
}
