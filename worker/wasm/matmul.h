// The parts of a product: how one token or a few hundred meet some groups of a weight.
#pragma once
#include "product.h"

enum { PASS_TOKENS = 1024 };  // whose sums fit into a thread's scratch

// Any number of tokens with groups first .. stop of the weight.
void multiply(const struct product *p, bool is_exact, u32 first, u32 stop, void *scratch);
// Groups in a share: enough work to be worth taking, yet several shares for every thread.
u32 share_groups(const struct product *p, u32 n_threads);

// Of one token with groups first .. stop.
void matvec_exact(const struct product *p, u32 first, u32 stop, void *scratch);
void matvec_int8(const struct product *p, u32 first, u32 stop, void *scratch);
// Of at most PASS_TOKENS tokens with a batch of groups.
void matmul_exact(const struct product *p, const struct batch *b, void *scratch);
void matmul_int8(const struct product *p, const struct batch *b, void *scratch);

// y of a batch and all tokens, from totals[token][group].
INLINE void put_batch(const struct product *p, const struct batch *b, const v128_t *totals) {
    for (u32 token = 0; token < p->n_tokens; token++)
        for (u32 k = 0; k < b->n; k++) put(p, &b->group[k], token, totals[token * BATCH + k]);
}
