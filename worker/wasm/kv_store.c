// Keys and values on their way to the cache, alone or straight from the q/k/v product.
#include "kv_format.h"
#include "norm.h"
#include "rope.h"

// Where one position's row of a cache lies.
static inline void *cache_row(const struct team *t, place cache, u32 position, u32 n_cols,
                              u32 kv) {
    return (u8 *)state_at(t, cache) + position * kv_bytes(n_cols, kv);
}

void k_kv_store(const struct kv_store_args *a, struct team *t) {
    FOR_ROW_SHARES(t, t->step->n_tokens, a->k_cols + a->v_cols) {
        u32 position = t->step->position + row;
        void *k = cache_row(t, a->k_cache, position, a->k_cols, a->kv);
        void *v = cache_row(t, a->v_cache, position, a->v_cols, a->kv);
        store_kv(f32_at(a->k) + (usize)row * a->k_cols, k, a->k_cols, a->kv);
        store_kv(f32_at(a->v) + (usize)row * a->v_cols, v, a->v_cols, a->kv);
    }
}

// One head's norm and rotation.
INLINE void make_head(const struct heads_args *a, const f32 *x, place norm, const f32 *angles,
                      f32 *y) {
    u32 n = a->head_dim;
    if (norm) {
        rms_norm_values(x, f32_at(norm), y, n, a->eps);
        x = y;
    }
    if (angles) rope_head(x, angles, y, n, a->n_rot, a->layout);
    else if (y != x) __builtin_memcpy(y, x, n * sizeof(f32));
}

void k_heads(const struct heads_args *a, struct team *t) {
    u32 n = a->head_dim, n_k = a->n_head_kv * n, n_v = a->n_head_kv * a->head_dim_v;
    u32 width = a->n_head * n + n_k + n_v;
    f32 *turned = t->scratch;
    FOR_ROW_SHARES(t, t->step->n_tokens, width) {
        u32 position = t->step->position + row;
        const f32 *q = f32_at(a->qkv) + (usize)row * width, *k = q + a->n_head * n;
        const f32 *angles = a->angles ? f32_at(a->angles) + (usize)row * a->n_rot : 0;
        f32 *y = f32_at(a->y) + (usize)row * a->n_head * n;
        for (u32 i = 0; i < a->n_head * n; i += n) make_head(a, q + i, a->q_norm, angles, y + i);
        for (u32 i = 0; i < n_k; i += n) make_head(a, k + i, a->k_norm, angles, turned + i);
        store_kv(turned, cache_row(t, a->k_cache, position, n_k, a->kv), n_k, a->kv);
        store_kv(k + n_k, cache_row(t, a->v_cache, position, n_v, a->kv), n_v, a->kv);
    }
}
