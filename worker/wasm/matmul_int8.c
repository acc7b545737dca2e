// The fast product: codes of weights times codes of activations, added up as integers per 16 or 32
// columns and scaled in float32.
#include "matmul.h"
#include "matvec.h"
#include "quants/types.h"
#include "tile.h"

struct fast {
    struct panel panels[BATCH];
    v128_t totals[];  // [token][panel]
};
_Static_assert(sizeof(struct fast) + PASS_TOKENS * BATCH * 16 <= SCRATCH_BYTES, "scratch");

// One token by way of panels.
static void matvec_packed(const struct product *p, u32 first, u32 stop, void *scratch) {
    for (u32 index = first; index < stop; index += BATCH) {
        struct batch b = batch_at(p, index, stop);
        matmul_int8(p, &b, scratch);
    }
}

// Runs CALL(how) with `how` as a constant.
#define FOR_DOTS(q, how, CALL)                                            \
    if (!q.is_wide) CALL(NARROW);                                         \
    else if (HAS_BYTE_DOTS && how == WIDE_SIGNED) CALL(WIDE_SIGNED);      \
    else if (HAS_BYTE_DOTS && how == WIDE_UNSIGNED) CALL(WIDE_UNSIGNED);  \
    else CALL(WIDE_16)

#define MATVEC_AS(how) matvec(q, how, p, first, stop)
#define MATVEC(id, name)                                                                     \
    static void matvec_##name(const struct product *p, u32 first, u32 stop, void *scratch) { \
        const struct quant *q = &name;                                                       \
        enum dots how = wide_dots();                                                         \
        if (!name.is_simple) matvec_packed(p, first, stop, scratch);                         \
        else FOR_DOTS(name, how, MATVEC_AS);                                                 \
    }
QUANT_TYPES(MATVEC)

#define PACK_AS(how) pack(q, how, panel, block, stride, n_runs)
#define PACK(id, name)                                                                 \
    static void pack_##name(struct panel *panel, const u8 *block, u32 stride, u32 n_runs, \
                            enum dots how) {                                           \
        const struct quant *q = &name;                                                 \
        FOR_DOTS(name, how, PACK_AS);                                                  \
    }
QUANT_TYPES(PACK)

typedef void matvec_kernel(const struct product *p, u32 first, u32 stop, void *scratch);
struct entry {
    const struct quant *quant;
    matvec_kernel *matvec;
    pack_kernel *pack;
};
#define ENTRY(id, name) [id] = {&name, matvec_##name, pack_##name},
static const struct entry entries[N_TYPES] = {QUANT_TYPES(ENTRY)};

void matvec_int8(const struct product *p, u32 first, u32 stop, void *scratch) {
    entries[p->type].matvec(p, first, stop, scratch);
}

void matmul_int8(const struct product *p, const struct batch *b, void *scratch) {
    struct fast *s = scratch;
    const struct entry *entry = &entries[p->type];
    const struct quant *q = entry->quant;
    enum dots how = wide_dots();
    bool split = q->is_wide && is_split(how);
    u32 runs = p->n_cols / RUN;
    for (u32 i = 0; i < p->n_tokens * BATCH; i++) s->totals[i] = zeros();
    for (u32 run = 0; run < runs; run += PANEL_RUNS) {
        u32 n = min_u32(PANEL_RUNS, runs - run), bytes = run * RUN / q->block_size * q->type_size;
        for (u32 k = 0; k < BATCH; k++)
            entry->pack(&s->panels[k], b->group[k].weight + bytes, b->group[k].stride, n, how);
        u32 x_at = run * X_BLOCK;
        if (split) tiles(s->totals, s->panels, p, x_at, n, RUN, true);
        else if (q->group == RUN) tiles(s->totals, s->panels, p, x_at, n, RUN, false);
        else tiles(s->totals, s->panels, p, x_at, n, RUN / 2, false);
    }
    put_batch(p, b, s->totals);
}
