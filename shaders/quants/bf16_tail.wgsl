// bf16_tail: the 16 consecutive weights of group i, where rows are not whole groups
// shapes: one plane of bfloat16; groups are counted per row: row i / ceil(W_cols / 16)
// grid: none (library); the kernel declares W_data: array<vec4<u32>>
// limits: slower than bf16; columns past the row weigh nothing
override W_cols: u32 = 1u;
fn W_at(p: u32) -> f32 {
  let word = W_data[p / 8u][(p / 2u) % 4u];
  return bitcast<f32>((word >> ((p % 2u) * 16u)) << 16u);
}

fn W_load4(row: u32, col: u32) -> vec4<f32> {
  var v = vec4<f32>(0.0);
  for (var j = 0u; j < 4u; j++) {
    if (col + j < W_cols) { v[j] = W_at(row * W_cols + col + j); }
  }
  return v;
}

fn W_load16(i: u32) -> mat4x4<f32> {
  let groups = (W_cols + 15u) / 16u;
  let row = i / groups;
  let col = (i % groups) * 16u;
  return mat4x4<f32>(
    W_load4(row, col), W_load4(row, col + 4u), W_load4(row, col + 8u), W_load4(row, col + 12u));
}
