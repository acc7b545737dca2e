// Between logits and a draw: changed logits (penalize), and the most likely ids (top_k).
#include "last_share.h"
#include "values.h"

enum { SHARE = 4096, BLOCK = 64, COUNTER_WORDS = 4 };

// The words of SampleInputs.words: these, then a change per id, ids ascending.
struct sample {
    u32 n_ids, has_mask;
    f32 inverse_penalty, penalty;
    f32 inverse_temperature;
    u32 pad[3];
    struct change { u32 id; f32 bias, minus; u32 repeats; } changes[];
};

static const f32 LARGEST = 1.0e36f;  // of a logit before it is changed, so that none overflows

INLINE v128_t op_finite(v128_t x, v128_t b, v128_t lowest) {
    v128_t y = wasm_f32x4_min(wasm_f32x4_max(x, lowest), wasm_f32x4_neg(lowest));
    return wasm_v128_bitselect(lowest, y, wasm_f32x4_ne(x, x));
}

static f32 clip(f32 x) { return x > LARGEST ? LARGEST : x < -LARGEST ? -LARGEST : x; }

static f32 changed(const struct sample *s, const struct change *c, f32 before) {
    if (before <= LOWEST) return LOWEST;
    f32 value = clip(before + c->bias);
    if (c->repeats) value *= value > 0 ? s->inverse_penalty : s->penalty;
    return value - c->minus;
}

// The first change of an id not below `id`.
static u32 first_change(const struct sample *s, u32 id) {
    u32 low = 0, high = s->n_ids;
    while (low < high) {
        u32 middle = (low + high) / 2;
        if (s->changes[middle].id < id) low = middle + 1;
        else high = middle;
    }
    return low;
}

static void apply_mask(const u32 *mask, f32 *y, u32 start, u32 stop) {
    v128_t lanes = wasm_i32x4_make(1, 2, 4, 8), lowest = v_const(LOWEST);
    u32 i = start;
    for (; i + 4 <= stop; i += 4) {
        v128_t bits = wasm_v128_and(v_bits(mask[i / 32] >> (i % 32)), lanes);
        v_store(y + i, wasm_v128_bitselect(v_load(y + i), lowest, wasm_i32x4_eq(bits, lanes)));
    }
    for (; i < stop; i++) if (!(mask[i / 32] >> (i % 32) & 1)) y[i] = LOWEST;
}

void k_penalize(const struct penalize_args *a, struct team *t) {
    const struct sample *s = at(a->sample);
    const f32 *x = f32_at(a->x);
    f32 *y = f32_at(a->y);
    u32 n_shares = div_up(a->n_cols, SHARE);
    for (u32 i; (i = next_chunk(t, n_shares)) < n_shares;) {
        u32 start = i * SHARE, stop = min_u32(start + SHARE, a->n_cols);
        map_values(x + start, x + start, y + start, stop - start, v_const(LOWEST), op_finite);
        for (u32 c = first_change(s, start); c < s->n_ids && s->changes[c].id < stop; c++) {
            f32 *value = &y[s->changes[c].id];
            *value = changed(s, &s->changes[c], *value);
        }
        if (s->has_mask) apply_mask(at(a->mask), y, start, stop);
    }
}

// ----- top_k. Each share leaves its largest value, its sum of exponentials and the largest of each
// block of 64. The k-th largest block holds k values at least: only blocks above it are looked at.

struct share { f32 max, total; };

static void scan_share(const f32 *x, u32 n, f32 inverse_temperature, f32 *blocks,
                       struct share *result) {
    f32 max = LOWEST;
    for (u32 start = 0; start < n; start += BLOCK) {
        u32 stop = min_u32(start + BLOCK, n), i = start;
        v128_t best = v_const(LOWEST);
        for (; i + 4 <= stop; i += 4) best = wasm_f32x4_pmax(best, v_load(x + i));
        f32 block = v_max_lane(best);
        for (; i < stop; i++) if (x[i] > block) block = x[i];
        *blocks++ = block;
        if (block > max) max = block;
    }
    v128_t top = v_const(max), scale = v_const(inverse_temperature), sum = v_const(0);
    u32 i = 0;
    for (; i + 4 <= n; i += 4) {
        v128_t below = wasm_f32x4_mul(wasm_f32x4_sub(v_load(x + i), top), scale);
        sum = wasm_f32x4_add(sum, v_exp(below));
    }
    f32 total = v_sum(sum);
    for (; i < n; i++) total += s_exp((x[i] - max) * inverse_temperature);
    *result = (struct share){max, total};
}

// Larger for a larger value, and for the lower index among equals.
static u64 key_of(f32 value, u32 index) {
    union { f32 f; u32 u; } bits = {value + 0.0f};  // -0 and 0 are equal
    u32 ordered = bits.u >> 31 ? ~bits.u : bits.u | 0x80000000u;
    return (u64)ordered << 32 | (u32)~index;
}

static f32 value_of(u64 key) {
    u32 ordered = (u32)(key >> 32);
    union { u32 u; f32 f; } bits = {ordered >> 31 ? ordered & 0x7fffffffu : ~ordered};
    return bits.f;
}

// The largest keys so far, the smallest of them first.
struct heap { u32 n; u64 keys[N_CANDIDATES]; };

static void sift_down(struct heap *h, u64 key) {
    u32 i = 0;
    for (u32 child; (child = 2 * i + 1) < h->n; i = child) {
        if (child + 1 < h->n && h->keys[child + 1] < h->keys[child]) child++;
        if (h->keys[child] >= key) break;
        h->keys[i] = h->keys[child];
    }
    h->keys[i] = key;
}

static void offer(struct heap *h, u64 key) {
    if (h->n == N_CANDIDATES) {
        if (key > h->keys[0]) sift_down(h, key);
        return;
    }
    u32 i = h->n++;
    for (; i && h->keys[(i - 1) / 2] > key; i = (i - 1) / 2) h->keys[i] = h->keys[(i - 1) / 2];
    h->keys[i] = key;
}

static void offer_block(struct heap *h, const f32 *x, u32 start, u32 stop, f32 floor) {
    for (u32 i = start; i < stop; i += 4) {
        if (h->n == N_CANDIDATES) floor = value_of(h->keys[0]);
        u32 n = min_u32(4, stop - i);
        v128_t v = n == 4 ? v_load(x + i) : v_load_part(x + i, n);
        if (!wasm_v128_any_true(wasm_f32x4_ge(v, v_const(floor)))) continue;
        for (u32 j = i; j < i + n; j++) if (x[j] >= floor) offer(h, key_of(x[j], j));
    }
}

static void select_best(const struct top_k_args *a, const struct share *shares, const f32 *blocks,
                        struct heap *h) {
    u32 n_blocks = div_up(a->n_cols, BLOCK), n_shares = div_up(a->n_cols, SHARE);
    const f32 *x = f32_at(a->x);
    f32 floor = LOWEST;
    h->n = 0;
    for (u32 i = 0; i < n_blocks; i++) offer(h, key_of(blocks[i], i));
    if (h->n == N_CANDIDATES) floor = value_of(h->keys[0]);
    h->n = 0;
    for (u32 i = 0; i < n_blocks; i++)
        if (blocks[i] >= floor)
            offer_block(h, x, i * BLOCK, min_u32((i + 1) * BLOCK, a->n_cols), floor);
    struct candidates *y = at(a->y);
    y->count = 0;
    for (u32 last = h->n; last--;) {
        u32 id = ~(u32)h->keys[0];
        y->best[last].id = id;
        y->best[last].logit = x[id];
        if (x[id] > LOWEST) y->count++;
        h->n = last;
        if (last) sift_down(h, h->keys[last]);
    }
    f32 inverse_temperature = ((const struct sample *)at(a->sample))->inverse_temperature;
    y->total = 0;
    for (u32 i = 0; i < n_shares; i++) {
        f32 below = (shares[i].max - y->best[0].logit) * inverse_temperature;
        y->total += shares[i].total * s_exp(below);
    }
}

void k_top_k(const struct top_k_args *a, struct team *t) {
    u32 n_shares = div_up(a->n_cols, SHARE);
    f32 *parts = f32_at(a->parts);
    struct share *shares = (struct share *)(parts + COUNTER_WORDS);
    f32 *blocks = (f32 *)(shares + n_shares);
    f32 inverse_temperature = ((const struct sample *)at(a->sample))->inverse_temperature;
    for (u32 i; (i = next_chunk(t, n_shares)) < n_shares;) {
        u32 start = i * SHARE, n = min_u32(SHARE, a->n_cols - start);
        const f32 *x = f32_at(a->x) + start;
        scan_share(x, n, inverse_temperature, blocks + start / BLOCK, &shares[i]);
        if (is_last_share(t, (u64 *)parts, n_shares)) select_best(a, shares, blocks, t->scratch);
    }
}
