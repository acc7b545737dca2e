// Products with the experts that a router chose: only their rows of the stacked weight are read.
//
// One token: a share is some rows of one slot's expert. More tokens: a share is some rows of one
// expert, times all slots that chose it; every thread looks them up for itself, since that is a
// glance at one number a slot.
#include "matmul.h"
#include "unpack.h"
#include "values.h"

// Slots that chose one expert, at the end of a thread's scratch.
struct chosen {
    u32 x_rows[PASS_TOKENS], y_rows[PASS_TOKENS];
};

static struct product expert_product(const struct expert_matmul_args *a, u32 expert) {
    u32 stride = row_bytes(a->type, a->n_cols);
    return (struct product){
        .x = at(a->xq ? a->xq : a->x),
        .weight = (const u8 *)at(a->weight) + (usize)expert * a->n_rows * stride,
        .bias = a->bias ? f32_at(a->bias) + (usize)expert * a->n_rows : 0,
        .y = f32_at(a->y),
        .n_tokens = 1,
        .n_rows = a->n_rows,
        .n_cols = a->n_cols,
        .y_cols = a->n_rows,
        .row_bytes = stride,
        .x_bytes = a->xq ? a->n_cols / RUN * X_BLOCK : a->n_cols * sizeof(f32),
        .type = a->type,
    };
}

// Slots of the expert from `slot` on, as many as a pass takes; `slot` moves past the last.
static u32 collect(const struct expert_matmul_args *a, struct chosen *c, u32 expert, u32 *slot,
                   u32 n_slots) {
    const u32 *experts = at(a->experts);
    u32 n = 0;
    for (; *slot < n_slots && n < PASS_TOKENS; ++*slot) {
        if (experts[*slot] != expert) continue;
        c->x_rows[n] = a->has_own ? *slot : *slot / a->n_used;
        c->y_rows[n++] = *slot;
    }
    return n;
}

void k_expert_matmul(const struct expert_matmul_args *a, struct team *t) {
    struct chosen *c = (struct chosen *)((u8 *)t->scratch + SCRATCH_BYTES) - 1;
    const u32 *experts = at(a->experts);
    u32 n_tokens = rows_of(t, a->uses_n_out), n_slots = n_tokens * a->n_used;
    struct product first = expert_product(a, 0);
    u32 groups = n_groups(a->n_rows), per = share_groups(&first, t->n_threads);
    u32 shares = div_up(groups, per), n_items = n_tokens == 1 ? a->n_used : a->n_expert;
    if (!n_tokens) n_items = 0;
    for (u32 i; (i = next_chunk(t, n_items * shares)) < n_items * shares;) {
        u32 item = i / shares, start = i % shares * per, slot = n_tokens == 1 ? item : 0;
        u32 expert = n_tokens == 1 ? experts[item] : item;
        struct product p = expert_product(a, expert);
        p.x_rows = c->x_rows;
        p.y_rows = c->y_rows;
        u32 end = n_tokens == 1 ? slot + 1 : n_slots;
        while ((p.n_tokens = collect(a, c, expert, &slot, end)))
            multiply(&p, !a->xq, start, min_u32(start + per, groups), t->scratch);
    }
}
