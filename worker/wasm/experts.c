// A router's choice of experts, the sum over them, and the gates of models that have them.
#include <stdbool.h>

#include "values.h"

// Scores of a row; behind them LOWEST, up to whole vectors.
static void score(const f32 *logits, f32 *scores, u32 n, u32 gating) {
    v128_t top = v_const(LOWEST), total = v_const(0);
    for (u32 i = 0; i < ((n + 3) & ~3u); i++) scores[i] = i < n ? logits[i] : LOWEST;
    if (gating == SOFTMAX_CHOSEN) return;
    if (gating == SIGMOID) {
        for (u32 i = 0; i < n; i += 4) v_store(scores + i, v_sigmoid(v_load(scores + i)));
        return;
    }
    for (u32 i = 0; i < n; i += 4) top = wasm_f32x4_max(top, v_load(scores + i));
    top = v_const(v_max_lane(top));
    for (u32 i = 0; i < n; i += 4) {
        v128_t e = v_exp(wasm_f32x4_sub(v_load(scores + i), top));
        v_store(scores + i, e);
        total = wasm_f32x4_add(total, e);
    }
    total = v_const(v_sum(total));
    for (u32 i = 0; i < n; i += 4)
        v_store(scores + i, wasm_f32x4_div(v_load(scores + i), total));
}

// The index of the largest that is not taken, the lower one on a tie.
static u32 best_left(const f32 *wanted, const u8 *taken, u32 n) {
    u32 best = n;
    for (u32 i = 0; i < n; i++)
        if (!taken[i] && (best == n || wanted[i] > wanted[best])) best = i;
    return best;
}

static void finish_shares(const struct expert_route_args *a, f32 *shares) {
    f32 total = 0, top = LOWEST;
    if (a->gating == SOFTMAX_CHOSEN) {
        for (u32 i = 0; i < a->n_used; i++) top = shares[i] > top ? shares[i] : top;
        for (u32 i = 0; i < a->n_used; i++) total += shares[i] = s_exp(shares[i] - top);
        for (u32 i = 0; i < a->n_used; i++) shares[i] /= total;
    }
    total = 0;
    for (u32 i = 0; i < a->n_used; i++) total += shares[i];
    f32 by = a->normalize ? (total > a->min_total ? total : a->min_total) : 1;
    for (u32 i = 0; i < a->n_used; i++) shares[i] = shares[i] / by * a->scale;
}

void k_expert_route(const struct expert_route_args *a, struct team *t) {
    u32 n = a->n_expert, room = (n + 3) & ~3u;
    f32 *scores = t->scratch, *wanted = scores + room;
    u8 *taken = (u8 *)(wanted + room);
    FOR_ROW_SHARES(t, rows_of(t, a->uses_n_out), n) {
        score(f32_at(a->logits) + (usize)row * n, scores, n, a->gating);
        const f32 *bias = f32_at(a->bias);
        for (u32 i = 0; i < n; i++) {
            wanted[i] = a->bias ? scores[i] + bias[i] : scores[i];
            taken[i] = 0;
        }
        u32 *experts = (u32 *)at(a->experts) + (usize)row * a->n_used;
        f32 *shares = f32_at(a->shares) + (usize)row * a->n_used;
        for (u32 i = 0; i < a->n_used; i++) {
            experts[i] = best_left(wanted, taken, n);
            taken[experts[i]] = 1;
            shares[i] = scores[experts[i]];
        }
        finish_shares(a, shares);
    }
}

// y + x * share, of n columns.
static void add_share(f32 *y, const f32 *x, u32 n, f32 share, bool is_first) {
    u32 i = 0;
    v128_t by = v_const(share);
    for (; i + 4 <= n; i += 4) {
        v128_t part = wasm_f32x4_mul(v_load(x + i), by);
        v_store(y + i, is_first ? part : wasm_f32x4_add(v_load(y + i), part));
    }
    for (; i < n; i++) y[i] = x[i] * share + (is_first ? 0 : y[i]);
}

void k_expert_sum(const struct expert_sum_args *a, struct team *t) {
    FOR_ROW_SHARES(t, rows_of(t, a->uses_n_out), a->n_cols * a->n_used) {
        f32 *y = f32_at(a->y) + (usize)row * a->n_cols;
        const f32 *x = f32_at(a->x) + (usize)row * a->n_used * a->n_cols;
        const f32 *shares = f32_at(a->shares) + (usize)row * a->n_used;
        for (u32 slot = 0; slot < a->n_used; slot++)
            add_share(y, x + (usize)slot * a->n_cols, a->n_cols, shares[slot], slot == 0);
        if (!a->residual) continue;
        const f32 *residual = f32_at(a->residual) + (usize)row * a->n_cols;
        map_values(y, residual, y, a->n_cols, v_const(0), op_add);
    }
}

// g * sigmoid(alpha * g) * (u + 1), g at most the limit and u within it; c holds both.
INLINE v128_t op_clamped(v128_t gate, v128_t up, v128_t c) {
    v128_t alpha = wasm_i32x4_shuffle(c, c, 0, 0, 0, 0);
    v128_t limit = wasm_i32x4_shuffle(c, c, 1, 1, 1, 1);
    v128_t g = wasm_f32x4_min(gate, limit);
    v128_t u = wasm_f32x4_max(wasm_f32x4_min(up, limit), wasm_f32x4_neg(limit));
    v128_t active = wasm_f32x4_mul(g, v_sigmoid(wasm_f32x4_mul(alpha, g)));
    return wasm_f32x4_mul(active, wasm_f32x4_add(u, v_const(1)));
}

void k_clamped_glu(const struct clamped_glu_args *a, struct team *t) {
    v128_t c = wasm_f32x4_make(a->alpha, a->limit, 0, 0);
    FOR_ROW_SHARES(t, rows_of(t, a->uses_n_out), a->n_cols) {
        usize start = (usize)row * a->n_cols;
        map_values(f32_at(a->gate) + start, f32_at(a->up) + start, f32_at(a->y) + start, a->n_cols,
                   c, op_clamped);
    }
}

static f32 dot(const f32 *x, const f32 *y, u32 n) {
    v128_t sum = v_const(0);
    u32 i = 0;
    for (; i + 4 <= n; i += 4) sum = v_madd(v_load(x + i), v_load(y + i), sum);
    if (i < n) sum = v_madd(v_load_part(x + i, n - i), v_load_part(y + i, n - i), sum);
    return v_sum(sum);
}

void k_sigmoid_gate(const struct sigmoid_gate_args *a, struct team *t) {
    FOR_ROW_SHARES(t, rows_of(t, a->uses_n_out), a->n_cols + a->x_cols) {
        f32 logit = dot(f32_at(a->x) + (usize)row * a->x_cols, f32_at(a->weight), a->x_cols);
        v128_t by = v_sigmoid(v_const(logit));
        usize start = (usize)row * a->n_cols;
        const f32 *from = f32_at(a->a) + start;
        map_values(from, from, f32_at(a->y) + start, a->n_cols, by, op_scale);
    }
}
