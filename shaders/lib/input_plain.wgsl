// input: 16 columns of x as they are
// shapes: x [n, N_COLS]; x_start: where the row's first four values lie
// grid: none (library); the kernel declares x and N_COLS
// limits: columns past the row repeat the last ones; their weights are zero
var<private> x_start: u32;

fn X_load16(g: u32) -> mat4x4<f32> {
  let c = x_start + g * 4u;
  let end = x_start + N_COLS / 4u - 1u;
  return mat4x4<f32>(x[c], x[min(c + 1u, end)], x[min(c + 2u, end)], x[min(c + 3u, end)]);
}
