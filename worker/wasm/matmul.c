// y = x @ weight.T + bias + residual: shares of the rows, by the way that suits the tokens.
#include "matmul.h"
#include "unpack.h"
#include "values.h"

enum { SHARE_WEIGHTS = 1 << 15, SHARES_PER_THREAD = 4 };

u32 share_groups(const struct product *p, u32 n_threads) {
    u32 work = SHARE_WEIGHTS / (GROUP_ROWS * p->n_cols * p->n_tokens) + 1;
    u32 fair = n_groups(p->n_rows) / (SHARES_PER_THREAD * n_threads) + 1;
    u32 share = min_u32(work, fair);
    return p->n_tokens == 1 ? share : (share + BATCH - 1) / BATCH * BATCH;
}

// The tokens of `p` from `token` on, as many as a pass takes.
static struct product pass_of(const struct product *p, u32 token) {
    struct product pass = *p;
    pass.n_tokens = min_u32(PASS_TOKENS, p->n_tokens - token);
    if (p->x_rows) pass.x_rows += token;
    else pass.x += (usize)token * p->x_bytes;
    if (p->y_rows) {
        pass.y_rows += token;
        return pass;
    }
    pass.y += (usize)token * p->y_cols;
    if (p->residual) pass.residual += (usize)token * p->y_cols;
    return pass;
}

void multiply(const struct product *p, bool is_exact, u32 first, u32 stop, void *scratch) {
    if (p->n_tokens == 1) {
        if (is_exact) matvec_exact(p, first, stop, scratch);
        else matvec_int8(p, first, stop, scratch);
        return;
    }
    for (u32 token = 0; token < p->n_tokens; token += PASS_TOKENS) {
        struct product pass = pass_of(p, token);
        for (u32 index = first; index < stop; index += BATCH) {
            struct batch b = batch_at(p, index, stop);
            if (is_exact) matmul_exact(&pass, &b, scratch);
            else matmul_int8(&pass, &b, scratch);
        }
    }
}

static struct product product_of(const struct matmul_args *a, u32 n_tokens) {
    return (struct product){
        .x = at(a->xq ? a->xq : a->x),
        .weight = at(a->weight),
        .bias = a->bias ? f32_at(a->bias) : 0,
        .residual = a->residual ? f32_at(a->residual) + a->y_start : 0,
        .y = f32_at(a->y) + a->y_start,
        .n_tokens = n_tokens,
        .n_rows = a->n_rows,
        .n_cols = a->n_cols,
        .y_cols = a->y_cols,
        .row_bytes = row_bytes(a->type, a->n_cols),
        .x_bytes = a->xq ? a->n_cols / RUN * X_BLOCK : a->n_cols * sizeof(f32),
        .type = a->type,
    };
}

void k_matmul(const struct matmul_args *a, struct team *t) {
    struct product p = product_of(a, rows_of(t, a->uses_n_out));
    u32 groups = p.n_tokens ? n_groups(p.n_rows) : 0;
    u32 per = groups ? share_groups(&p, t->n_threads) : 1, n_shares = div_up(groups, per);
    for (u32 share; (share = next_chunk(t, n_shares)) < n_shares;) {
        u32 first = share * per;
        multiply(&p, !a->xq, first, min_u32(first + per, groups), t->scratch);
    }
}
