// bf16: the 16 consecutive weights of group i, dequantised as gguf/quants.py does
// shapes: one plane of bfloat16 (the upper half of a float32)
// grid: none (library); the kernel declares W_data: array<vec4<u32>>
// limits: N_COLS % 16 == 0 (bf16_tail otherwise)
fn W_pair(a: u32, b: u32) -> vec4<f32> {
  let top = 0xffff0000u;
  return bitcast<vec4<f32>>(vec4<u32>(a << 16u, a & top, b << 16u, b & top));
}
fn W_load16(i: u32) -> mat4x4<f32> {
  let a = W_data[i * 2u];
  let b = W_data[i * 2u + 1u];
  return mat4x4<f32>(W_pair(a.x, a.y), W_pair(a.z, a.w), W_pair(b.x, b.y), W_pair(b.z, b.w));
}
