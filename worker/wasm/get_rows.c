// Rows of a table by token id.
#include "unpack.h"
#include "values.h"

void k_get_rows(const struct get_rows_args *a, struct team *t) {
    unpack_kernel *unpack = unpack_of(a->type);
    u32 stride = row_bytes(a->type, a->n_cols);
    const i32 *ids = i32_at(a->ids);
    const u8 *table = at(a->table);
    FOR_ROW_SHARES(t, t->step->n_tokens, a->n_cols) {
        f32 *y = f32_at(a->y) + (usize)row * a->n_cols;
        unpack(table + (usize)ids[row] * stride, 0, 1, a->n_cols, y, a->n_cols);
        if (a->scale != 1.0f) map_values(y, y, y, a->n_cols, v_const(a->scale), op_scale);
    }
}
