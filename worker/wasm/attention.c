// Attention with an online softmax (Milakov & Gimelshein 2018; Dao et al. 2022).
//
// A share is the queries of some tokens and of the heads that read one key head: its keys are read
// once, tile by tile. One token's keys are split into parts instead, joined by the last to finish,
// and a part takes all key heads with it, since they lie side by side.
#include "attention_tiles.h"
#include "last_share.h"

enum { MAX_ROWS = 32, MAX_TILES = 16, PART_VALUES = 1 << 16, SCRATCH_VALUES = SCRATCH_BYTES / 4 };

// Relative to the largest score of a row. What lies lower changes no digit of the result, but times
// a value it may be a subnormal float, which costs a hundred cycles.
static const f32 LEAST_SCORE = -60;

// How a step's work is cut; the same on every thread.
struct cut {
    u32 group;           // heads per key head
    u32 n_heads;         // of a share
    u32 n_tokens;        // of a share
    u32 n_tiles;         // of a share: key heads
    u32 head_tiles, token_tiles, parts, kv_shares;
    u32 width_k, width_v;  // of a head, in pairs of vectors
};

// Rows of one key head: they are (token, head), and what is known of them so far.
struct tile {
    u32 kv_head, first_head, n_heads, first_token, n_tokens, part;
    u32 n_rows, stride;  // rows, and room for them in whole vectors
    u32 first_key, last_key;
    f32 *q, *acc, *keys, *values, *scores, *max, *total;
    i32 *position;  // of each row: the last key that it sees
};

static struct cut cut_work(const struct attention_args *a, const struct step *step) {
    struct cut c = {.group = a->n_head / a->n_head_kv};
    c.width_k = (a->head_dim + 7) & ~7u;
    c.width_v = (a->head_dim_v + 7) & ~7u;
    u32 widths = c.width_k + c.width_v;
    // Scratch: keys and values of a tile; a query, a sum, scores and three numbers per row.
    u32 room = (SCRATCH_VALUES - TILE_KEYS * widths - 64) / (widths + TILE_KEYS + 3);
    u32 rows = min_u32(room & ~3u, MAX_ROWS), a_key = a->n_head_kv * widths;
    c.n_heads = min_u32(c.group, rows);
    c.n_tokens = min_u32(rows / c.n_heads, step->n_tokens);
    c.head_tiles = div_up(c.group, c.n_heads);
    c.token_tiles = div_up(step->n_tokens, c.n_tokens);
    c.parts = c.n_tiles = 1;
    if (step->n_tokens == 1) {
        u32 n_keys = step->position + 1;
        if (a->window) n_keys = min_u32(n_keys, a->window);
        u32 per_part = a_key < PART_VALUES ? PART_VALUES / a_key : 1;
        c.parts = min_u32(div_up(n_keys, per_part), MAX_PARTS);
        c.n_tiles = min_u32(room / ((c.n_heads + 3) & ~3u), MAX_TILES);
        c.n_tiles = c.head_tiles > 1 ? 1 : min_u32(c.n_tiles, a->n_head_kv);
    }
    c.kv_shares = div_up(a->n_head_kv, c.n_tiles);
    return c;
}

// The i-th tile of a share.
static struct tile make_tile(const struct attention_args *a, struct team *t, const struct cut *c,
                             u32 share, u32 i) {
    struct tile s = {.part = share % c->parts};
    share /= c->parts;
    s.kv_head = share % c->kv_shares * c->n_tiles + i;
    share /= c->kv_shares;
    u32 head = share % c->head_tiles * c->n_heads;
    // The last tokens see most keys: first, so that no thread is left with them at the end.
    s.first_token = (c->token_tiles - 1 - share / c->head_tiles) * c->n_tokens;
    s.first_head = s.kv_head * c->group + head;
    s.n_heads = min_u32(c->n_heads, c->group - head);
    s.n_tokens = min_u32(c->n_tokens, t->step->n_tokens - s.first_token);
    s.n_rows = s.n_heads * s.n_tokens;
    s.stride = (s.n_rows + 3) & ~3u;
    u32 first = t->step->position + s.first_token, last = first + s.n_tokens - 1;
    if (!a->is_causal) last = t->step->position + t->step->n_tokens - 1;
    u32 start = a->window && first >= a->window ? first - a->window + 1 : 0;
    u32 n_keys = last + 1 - start;
    s.first_key = start + (u32)((u64)n_keys * s.part / c->parts);
    s.last_key = start + (u32)((u64)n_keys * (s.part + 1) / c->parts);
    f32 *free = t->scratch;
    s.keys = free;
    s.values = s.keys + TILE_KEYS * c->width_k;
    s.scores = s.values + TILE_KEYS * c->width_v;
    s.q = s.scores + TILE_KEYS * s.stride + i * s.stride * (c->width_k + c->width_v + 3);
    s.acc = s.q + s.stride * c->width_k;
    s.max = s.acc + s.stride * c->width_v;
    s.total = s.max + s.stride;
    s.position = (i32 *)(s.total + s.stride);
    return s;
}

static void start_rows(const struct attention_args *a, const struct step *step, const struct cut *c,
                       struct tile *s) {
    u32 q_cols = a->n_head * a->head_dim;
    for (u32 r = 0; r < s->stride; r++) {
        s->max[r] = LOWEST;
        s->total[r] = 0;
        s->position[r] = 0;
        if (r >= s->n_rows) continue;
        u32 token = s->first_token + r / s->n_heads, head = s->first_head + r % s->n_heads;
        const f32 *from = f32_at(a->q) + (usize)token * q_cols + head * a->head_dim;
        f32 *q = s->q + r * c->width_k;
        map_values(from, from, q, a->head_dim, v_const(a->scale), op_scale);
        for (u32 i = a->head_dim; i < c->width_k; i++) q[i] = 0;
        s->position[r] = (i32)(step->position + (a->is_causal ? token : step->n_tokens - 1));
    }
    for (u32 i = 0; i < s->n_rows * c->width_v; i++) s->acc[i] = 0;
    // Lanes without a row: any finite score does.
    for (u32 i = 0; i < TILE_KEYS * s->stride; i++) s->scores[i] = 0;
}

// Keys that a row does not see: later ones, and those behind its window.
static void mask_scores(const struct attention_args *a, const struct tile *s, u32 first,
                        u32 n_keys) {
    v128_t never = v_const(-__builtin_inff());
    for (u32 r = 0; r < s->n_rows; r += 4) {
        v128_t last = wasm_v128_load(s->position + r);
        v128_t before = a->window ? wasm_i32x4_sub(last, v_bits(a->window)) : v_bits(~0u);
        for (u32 j = 0; j < n_keys; j++) {
            f32 *score = s->scores + j * s->stride + r;
            v128_t key = v_bits(first + j);
            v128_t hidden = wasm_v128_or(wasm_i32x4_gt(key, last), wasm_i32x4_le(key, before));
            v_store(score, wasm_v128_bitselect(never, v_load(score), hidden));
        }
    }
}

static void cap_scores(const struct tile *s, u32 n_keys, f32 softcap) {
    v128_t cap = v_const(softcap), inverse = v_const(1 / softcap);
    for (u32 i = 0; i < n_keys * s->stride; i += 4) {
        v128_t score = wasm_f32x4_mul(v_load(s->scores + i), inverse);
        v_store(s->scores + i, wasm_f32x4_mul(cap, v_tanh(score)));
    }
}

// Scores become weights relative to each row's largest so far; sums of before follow it.
static void soften(const struct cut *c, struct tile *s, u32 n_keys) {
    for (u32 r = 0; r < s->n_rows; r += 4) {
        f32 *scores = s->scores + r;
        v128_t before = v_load(s->max + r), max = before, sum = v_const(0);
        for (u32 j = 0; j < n_keys; j++) max = wasm_f32x4_max(max, v_load(scores + j * s->stride));
        for (u32 j = 0; j < n_keys; j++) {
            v128_t below = wasm_f32x4_sub(v_load(scores + j * s->stride), max);
            v128_t weight = v_exp_above(below, LEAST_SCORE);
            v_store(scores + j * s->stride, weight);
            sum = wasm_f32x4_add(sum, weight);
        }
        v128_t kept = v_exp(wasm_f32x4_sub(before, max));
        v_store(s->max + r, max);
        v_store(s->total + r, v_madd(v_load(s->total + r), kept, sum));
        if (wasm_i32x4_all_true(wasm_f32x4_eq(kept, v_const(1)))) continue;
        f32 factors[4];
        v_store(factors, kept);
        for (u32 i = 0; i < min_u32(4, s->n_rows - r); i++) {
            f32 *acc = s->acc + (r + i) * c->width_v;
            map_values(acc, acc, acc, c->width_v, v_const(factors[i]), op_scale);
        }
    }
}

// Rows of a cache as float32: where they lie, or unpacked into `room`.
static const f32 *tile_rows(const u8 *rows, usize row_bytes, u32 n_keys, u32 n, u32 width,
                            u32 kv, f32 *room, usize *stride) {
    if (kv == KV_F32 && n == width) {
        *stride = row_bytes / sizeof(f32);
        return (const f32 *)rows;
    }
    unpack_rows(rows, row_bytes, n_keys, n, width, kv, room);
    *stride = width;
    return room;
}

static void attend(const struct attention_args *a, struct team *t, const struct cut *c,
                   struct tile *s, u32 first) {
    u32 dim_k = a->head_dim, dim_v = a->head_dim_v;
    u32 n_keys = min_u32(TILE_KEYS, s->last_key - first);
    usize k_bytes = kv_bytes(a->n_head_kv * dim_k, a->kv), k_stride;
    usize v_bytes = kv_bytes(a->n_head_kv * dim_v, a->kv), v_stride;
    const u8 *k_rows = (u8 *)state_at(t, a->k_cache) + first * k_bytes;
    const u8 *v_rows = (u8 *)state_at(t, a->v_cache) + first * v_bytes;
    const f32 *k = tile_rows(k_rows + kv_bytes(s->kv_head * dim_k, a->kv), k_bytes, n_keys, dim_k,
                             c->width_k, a->kv, s->keys, &k_stride);
    score_tile(s->q, s->n_rows, k, k_stride, n_keys, c->width_k, s->scores, s->stride);
    if (a->softcap != 0) cap_scores(s, n_keys, a->softcap);
    u32 end = (u32)s->position[s->n_rows - 1] + 1;
    u32 first_seen_by_all = a->window && end > a->window ? end - a->window : 0;
    if (first + n_keys > (u32)s->position[0] + 1 || first < first_seen_by_all)
        mask_scores(a, s, first, n_keys);
    soften(c, s, n_keys);
    const f32 *v = tile_rows(v_rows + kv_bytes(s->kv_head * dim_v, a->kv), v_bytes, n_keys, dim_v,
                             c->width_v, a->kv, s->values, &v_stride);
    mix_tile(s->acc, s->n_rows, s->scores, s->stride, v, v_stride, n_keys, c->width_v);
}

// y = acc / total, a sink's weight counted in.
static void finish_row(const struct attention_args *a, const f32 *acc, f32 max, f32 total,
                       u32 token, u32 head) {
    f32 *y = f32_at(a->y) + ((usize)token * a->n_head + head) * a->head_dim_v, kept = 1;
    if (a->sinks) {
        f32 sink = f32_at(a->sinks)[head], top = sink > max ? sink : max;
        kept = s_exp(max - top);
        total = total * kept + s_exp(sink - top);
    }
    map_values(acc, acc, y, a->head_dim_v, v_const(kept / total), op_scale);
}

static u32 part_width(const struct attention_args *a) { return (a->head_dim_v + 3) & ~3u; }

static f32 *part_of(const struct attention_args *a, u32 part, u32 head) {
    return f32_at(a->parts) + ((usize)part * a->n_head + head) * (PART_HEAD + part_width(a));
}

// Joins the parts of one head: [max, total, .., .., values].
static void join_parts(const struct attention_args *a, const struct cut *c, u32 head, f32 *acc) {
    v128_t best = v_const(LOWEST);
    for (u32 p = 0; p < c->parts; p++)
        best = wasm_f32x4_max(best, v_const(part_of(a, p, head)[0]));
    f32 max = wasm_f32x4_extract_lane(best, 0), total = 0;
    for (u32 i = 0; i < part_width(a); i++) acc[i] = 0;
    for (u32 p = 0; p < c->parts; p++) {
        const f32 *part = part_of(a, p, head);
        f32 kept = s_exp(part[0] - max);
        total += part[1] * kept;
        for (u32 i = 0; i < part_width(a); i += 4)
            v_store(acc + i, v_madd(v_const(kept), v_load(part + PART_HEAD + i), v_load(acc + i)));
    }
    finish_row(a, acc, max, total, 0, head);
}

static void finish(const struct attention_args *a, struct team *t, const struct cut *c,
                   struct tile *s) {
    for (u32 r = 0; r < s->n_rows; r++) {
        u32 token = s->first_token + r / s->n_heads, head = s->first_head + r % s->n_heads;
        const f32 *acc = s->acc + r * c->width_v;
        if (c->parts == 1) {
            finish_row(a, acc, s->max[r], s->total[r], token, head);
            continue;
        }
        f32 *part = part_of(a, s->part, head);
        part[0] = s->max[r];
        part[1] = s->total[r];
        __builtin_memcpy(part + PART_HEAD, acc, part_width(a) * sizeof(f32));
    }
    // The counter lies behind the first part's two numbers.
    u64 *counter = (u64 *)(part_of(a, 0, s->first_head) + 2);
    if (c->parts == 1 || !is_last_share(t, counter, c->parts)) return;
    for (u32 h = 0; h < s->n_heads; h++) join_parts(a, c, s->first_head + h, s->acc);
}

void k_attention(const struct attention_args *a, struct team *t) {
    struct cut c = cut_work(a, t->step);
    u32 n_shares = c.kv_shares * c.head_tiles * c.token_tiles * c.parts;
    for (u32 share; (share = next_chunk(t, n_shares)) < n_shares;) {
        struct tile tiles[MAX_TILES];
        u32 n = 0;
        do {
            tiles[n] = make_tile(a, t, &c, share, n);
            start_rows(a, t->step, &c, &tiles[n]);
        } while (++n < c.n_tiles && tiles[0].kv_head + n < a->n_head_kv);
        for (u32 first = tiles[0].first_key; first < tiles[0].last_key; first += TILE_KEYS)
            for (u32 i = 0; i < n; i++) attend(a, t, &c, &tiles[i], first);
        for (u32 i = 0; i < n; i++) finish(a, t, &c, &tiles[i]);
    }
}
