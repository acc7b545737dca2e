// bf16_tail: the 16 consecutive weights of group i, dequantised as gguf/quants.py does
// shapes: one plane of bfloat16, rows of any multiple of 4 columns
// grid: none (library); the kernel declares W_data: array<vec4<u32>>
// limits: N_COLS % 4 == 0; slower than bf16
// Group i counts padded groups: row i / groups, and columns past N_COLS weigh nothing.
fn W_load4(i: u32, c: u32) -> vec4<f32> {
  let groups = (N_COLS + 15u) / 16u;
  let col = (i % groups) * 4u + c;
  if (col >= N_COLS / 4u) { return vec4<f32>(0.0); }
  let p = (i / groups) * (N_COLS / 4u) + col;
  let word = p * 2u;
  let a = W_data[word / 4u][word % 4u];
  let b = W_data[word / 4u][word % 4u + 1u];
  let top = 0xffff0000u;
  return bitcast<vec4<f32>>(vec4<u32>(a << 16u, a & top, b << 16u, b & top));
}
fn W_load16(i: u32) -> mat4x4<f32> {
  return mat4x4<f32>(W_load4(i, 0u), W_load4(i, 1u), W_load4(i, 2u), W_load4(i, 3u));
}
