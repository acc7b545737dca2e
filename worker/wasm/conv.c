// Gated causal convolution over tokens. A share is some columns, of all tokens.
#include "values.h"

enum { SHARE_COLS = 64 };

struct columns {
    const struct short_conv_args *args;
    f32 *state;
    const f32 *x;  // from the share's first column on
    u32 position, n_tokens, n;
};

// The state's row of a position; see ops/conv.py.
static u32 state_row(const struct short_conv_args *a, u32 position, u32 *stays) {
    u32 n_kept = a->n_taps - 1, into = position % a->period, skipped = a->period - n_kept;
    *stays = into >= skipped;
    return *stays ? a->ring + position / a->period * n_kept + into - skipped : position % a->ring;
}

// b * v of one token, for 4 columns or the fewer that are left.
INLINE v128_t gated(const struct columns *c, u32 token, u32 col, u32 n) {
    const f32 *b = c->x + (usize)token * 3 * c->args->n_cols + col, *v = b + 2 * c->args->n_cols;
    if (n < 4) return wasm_f32x4_mul(v_load_part(b, n), v_load_part(v, n));
    return wasm_f32x4_mul(v_load(b), v_load(v));
}

// What the convolution reads at a position that may lie before the step's tokens, or before all.
INLINE v128_t read_at(const struct columns *c, i64 position, u32 col, u32 n) {
    if (position >= c->position) return gated(c, (u32)(position - c->position), col, n);
    if (position < 0) return v_const(0);
    u32 stays;
    const f32 *row = c->state + (usize)state_row(c->args, (u32)position, &stays) * c->args->n_cols;
    return n < 4 ? v_load_part(row + col, n) : v_load(row + col);
}

static void conv_token(const struct columns *c, const f32 *taps, u32 token, f32 *y) {
    u32 n_taps = c->args->n_taps;
    const f32 *gate = c->x + ((usize)token * 3 + 1) * c->args->n_cols;
    for (u32 col = 0; col < c->n; col += 4) {
        u32 n = min_u32(4, c->n - col);
        v128_t sum = v_const(0);
        for (u32 tap = 0; tap < n_taps; tap++) {
            i64 position = (i64)c->position + token + tap - (n_taps - 1);
            v128_t weight = v_load(taps + tap * SHARE_COLS + col);
            sum = v_madd(read_at(c, position, col, n), weight, sum);
        }
        if (n == 4) v_store(y + col, wasm_f32x4_mul(sum, v_load(gate + col)));
        else v_store_part(y + col, wasm_f32x4_mul(sum, v_load_part(gate + col, n)), n);
    }
}

// Rows that later steps, or a rewound session, may read: written when all have been read.
static void keep_rows(const struct columns *c) {
    for (u32 token = 0; token < c->n_tokens; token++) {
        u32 stays, at = state_row(c->args, c->position + token, &stays);
        if (!stays && token + c->args->ring < c->n_tokens) continue;  // overwritten further on
        f32 *row = c->state + (usize)at * c->args->n_cols;
        for (u32 col = 0; col < c->n; col += 4) {
            u32 n = min_u32(4, c->n - col);
            v128_t values = gated(c, token, col, n);
            if (n == 4) v_store(row + col, values);
            else v_store_part(row + col, values, n);
        }
    }
}

void k_short_conv(const struct short_conv_args *a, struct team *t) {
    u32 n_shares = div_up(a->n_cols, SHARE_COLS);
    f32 *taps = t->scratch;
    for (u32 share; (share = next_chunk(t, n_shares)) < n_shares;) {
        u32 first = share * SHARE_COLS;
        struct columns c = {a, (f32 *)state_at(t, a->state) + first, f32_at(a->x) + first,
                            t->step->position, t->step->n_tokens,
                            min_u32(SHARE_COLS, a->n_cols - first)};
        // Tap by tap, so that neighbouring columns lie side by side.
        for (u32 tap = 0; tap < a->n_taps; tap++)
            for (u32 col = 0; col < c.n; col++)
                taps[tap * SHARE_COLS + col] =
                    f32_at(a->weight)[(usize)(first + col) * a->n_taps + tap];
        for (u32 token = 0; token < c.n_tokens; token++)
            conv_token(&c, taps, token, f32_at(a->y) + (usize)token * a->n_cols + first);
        keep_rows(&c);
    }
}
