// Weights as float32, of any storage type: the exact products and get_rows read them so.
#pragma once
#include "quants/types.h"

// Unpacks columns 0 .. n_cols of n_rows rows (at most four, a stride apart) into `out`, whose rows
// lie out_cols apart. n_cols is whole blocks.
typedef void unpack_kernel(const u8 *block, u32 stride, u32 n_rows, u32 n_cols, f32 *out,
                           u32 out_cols);

unpack_kernel *unpack_of(u32 type);

// Bytes of a row of n_cols values.
u32 row_bytes(u32 type, u32 n_cols);
