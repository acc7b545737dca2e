// f16: the 16 consecutive weights of group i, dequantised as gguf/quants.py does
// shapes: one plane of float16
// grid: none (library); the kernel declares W_data: array<vec4<u32>>
// limits: N_COLS % 16 == 0 (f16_tail otherwise)
fn W_pair(a: u32, b: u32) -> vec4<f32> {
  return vec4<f32>(unpack2x16float(a), unpack2x16float(b));
}
fn W_load16(i: u32) -> mat4x4<f32> {
  let a = W_data[i * 2u];
  let b = W_data[i * 2u + 1u];
  return mat4x4<f32>(W_pair(a.x, a.y), W_pair(a.z, a.w), W_pair(b.x, b.y), W_pair(b.z, b.w));
}
