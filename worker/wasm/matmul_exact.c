// The exact product: float32 weights times float32 activations, for every storage type.
#include "matmul.h"
#include "panel.h"
#include "unpack.h"

enum { EXACT_COLS = 256, EXACT_TOKENS = 2 };

// Scratch: weights by rows, then panels [panel][column] of four rows.
struct exact {
    f32 rows[GROUP_ROWS][EXACT_COLS];
    v128_t panels[BATCH][EXACT_COLS];
    v128_t totals[];  // [token][panel]
};
_Static_assert(sizeof(struct exact) + PASS_TOKENS * BATCH * 16 <= SCRATCH_BYTES, "scratch");

// Unpacks n_cols columns of a group from `col` on; zeros follow, up to whole vectors.
static void unpack_group(const struct product *p, unpack_kernel *unpack, const struct group *g,
                         u32 col, u32 n_cols, f32 *rows) {
    for (u32 row = 0; row < GROUP_ROWS; row++)
        for (u32 i = n_cols; i & 3; i++) rows[row * EXACT_COLS + i] = 0;
    unpack(g->weight + row_bytes(p->type, col), g->stride, g->n_rows, n_cols, rows, EXACT_COLS);
    for (u32 row = g->n_rows; row < GROUP_ROWS; row++)
        __builtin_memcpy(rows + row * EXACT_COLS, rows, n_cols * sizeof(f32));
}

// Adds four rows times one token.
static void exact_dots(v128_t *acc, const f32 *rows, const f32 *x, u32 n_cols) {
    u32 i = 0;
    for (; i + 4 <= n_cols; i += 4) {
        v128_t part = v_load(x + i);
        UNROLLED for (u32 row = 0; row < GROUP_ROWS; row++)
            acc[row] = v_madd(v_load(rows + row * EXACT_COLS + i), part, acc[row]);
    }
    if (i == n_cols) return;
    v128_t part = v_load_part(x + i, n_cols - i);
    UNROLLED for (u32 row = 0; row < GROUP_ROWS; row++)
        acc[row] = v_madd(v_load(rows + row * EXACT_COLS + i), part, acc[row]);
}

void matvec_exact(const struct product *p, u32 first, u32 stop, void *scratch) {
    struct exact *s = scratch;
    unpack_kernel *unpack = unpack_of(p->type);
    for (u32 index = first; index < stop; index++) {
        struct group g = group_at(p, index);
        if (index + 1 < stop) touch(p, index + 1);
        v128_t acc[GROUP_ROWS] = {zeros(), zeros(), zeros(), zeros()};
        for (u32 col = 0; col < p->n_cols; col += EXACT_COLS) {
            u32 n_cols = min_u32(EXACT_COLS, p->n_cols - col);
            unpack_group(p, unpack, &g, col, n_cols, s->rows[0]);
            exact_dots(acc, s->rows[0], (const f32 *)x_row(p, 0) + col, n_cols);
        }
        put(p, &g, 0, v_sum4(acc[0], acc[1], acc[2], acc[3]));
    }
}

// Adds the products of n_cols columns to totals[token][panel].
INLINE void exact_tile(v128_t *totals, const struct exact *s, const f32 *const *x, u32 n_tokens,
                       u32 n_cols) {
    u32 n = n_tokens * BATCH;
    v128_t total[EXACT_TOKENS * BATCH];
    UNROLLED for (u32 i = 0; i < n; i++) total[i] = totals[i];
    ROLLED for (u32 col = 0; col < n_cols; col++) {
        UNROLLED for (u32 i = 0; i < n; i++) {
            v128_t part = wasm_v128_load32_splat(x[i / BATCH] + col);
            total[i] = v_madd(s->panels[i % BATCH][col], part, total[i]);
        }
    }
    UNROLLED for (u32 i = 0; i < n; i++) totals[i] = total[i];
}

static void turn_panel(v128_t *panel, const f32 *rows, u32 n_cols) {
    for (u32 i = 0; i < n_cols; i += 4) {
        v128_t four[GROUP_ROWS];
        UNROLLED for (u32 row = 0; row < GROUP_ROWS; row++)
            four[row] = v_load(rows + row * EXACT_COLS + i);
        turn(panel + i, four);
    }
}

void matmul_exact(const struct product *p, const struct batch *b, void *scratch) {
    struct exact *s = scratch;
    unpack_kernel *unpack = unpack_of(p->type);
    for (u32 i = 0; i < p->n_tokens * BATCH; i++) s->totals[i] = zeros();
    for (u32 col = 0; col < p->n_cols; col += EXACT_COLS) {
        u32 n_cols = min_u32(EXACT_COLS, p->n_cols - col), token = 0;
        for (u32 k = 0; k < BATCH; k++) {
            unpack_group(p, unpack, &b->group[k], col, n_cols, s->rows[0]);
            turn_panel(s->panels[k], s->rows[0], n_cols);
        }
        for (; token + EXACT_TOKENS <= p->n_tokens; token += EXACT_TOKENS) {
            const f32 *rows[EXACT_TOKENS];
            UNROLLED for (u32 i = 0; i < EXACT_TOKENS; i++)
                rows[i] = (const f32 *)x_row(p, token + i) + col;
            exact_tile(s->totals + token * BATCH, s, rows, EXACT_TOKENS, n_cols);
        }
        for (; token < p->n_tokens; token++) {
            const f32 *row = (const f32 *)x_row(p, token) + col;
            exact_tile(s->totals + token * BATCH, s, &row, 1, n_cols);
        }
    }
    put_batch(p, b, s->totals);
}
