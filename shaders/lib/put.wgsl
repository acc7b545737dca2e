// put: one result of a product with several tokens, its bias and residual added
// shapes: y, residual [n, Y_COLS]; bias [rows of the whole tensor]
// grid: none (library); the kernel declares bias, residual, y and params
// limits: rows and tokens past the end are not written
override N_ROWS: u32 = 1u;
override Y_COLS: u32 = 1u;
override HAS_BIAS: u32 = 0u;
override HAS_RESIDUAL: u32 = 0u;
struct Params { row_start: u32, y_start: u32 }

fn put(t: u32, row: u32, n: u32, sum: f32) {
  if (t >= n || row >= N_ROWS) { return; }
  let at = t * Y_COLS + params.y_start + row;
  var v = sum;
  if (HAS_BIAS != 0u) { v += bias[params.row_start + row]; }
  if (HAS_RESIDUAL != 0u) { v += residual[at]; }
  y[at] = v;
}
