// dot4: four consecutive weight rows times one row of x, over every stride-th group of 16 columns
// shapes: W [n_rows, N_COLS], x [.., N_COLS]; rows past the last repeat it
// grid: none (library); the kernel declares x, W_data and N_COLS
// limits: N_COLS % 4 == 0; a last group of fewer than 16 columns has zero weights past the row
fn W_dot4(row: u32, n_rows: u32, x_base: u32, first: u32, stride: u32) -> vec4<f32> {
  let n_groups = (N_COLS + 15u) / 16u;
  let last = n_rows - 1u;
  let r0 = min(row, last) * n_groups;
  let r1 = min(row + 1u, last) * n_groups;
  let r2 = min(row + 2u, last) * n_groups;
  let r3 = min(row + 3u, last) * n_groups;
  let end = N_COLS / 4u - 1u;
  var acc = vec4<f32>(0.0);
  for (var g = first; g < n_groups; g += stride) {
    let c = g * 4u;
    let x0 = x[x_base + c];
    let x1 = x[x_base + min(c + 1u, end)];
    let x2 = x[x_base + min(c + 2u, end)];
    let x3 = x[x_base + min(c + 3u, end)];
    let m0 = W_load16(r0 + g);
    acc.x += dot(m0[0], x0) + dot(m0[1], x1) + dot(m0[2], x2) + dot(m0[3], x3);
    let m1 = W_load16(r1 + g);
    acc.y += dot(m1[0], x0) + dot(m1[1], x1) + dot(m1[2], x2) + dot(m1[3], x3);
    let m2 = W_load16(r2 + g);
    acc.z += dot(m2[0], x0) + dot(m2[1], x1) + dot(m2[2], x2) + dot(m2[3], x3);
    let m3 = W_load16(r3 + g);
    acc.w += dot(m3[0], x0) + dot(m3[1], x1) + dot(m3[2], x2) + dot(m3[3], x3);
  }
  return acc;
}
