// f32_tail: the 16 consecutive weights of group i, dequantised as gguf/quants.py does
// shapes: one plane of float32, rows of any multiple of 4 columns
// grid: none (library); the kernel declares W_data: array<vec4<u32>>
// limits: N_COLS % 4 == 0; slower than f32
// Group i counts padded groups: row i / groups, and columns past N_COLS weigh nothing.
fn W_load4(i: u32, c: u32) -> vec4<f32> {
  let groups = (N_COLS + 15u) / 16u;
  let col = (i % groups) * 4u + c;
  if (col >= N_COLS / 4u) { return vec4<f32>(0.0); }
  let p = (i / groups) * (N_COLS / 4u) + col;
  return bitcast<vec4<f32>>(W_data[p]);
}
fn W_load16(i: u32) -> mat4x4<f32> {
  return mat4x4<f32>(W_load4(i, 0u), W_load4(i, 1u), W_load4(i, 2u), W_load4(i, 3u));
}
