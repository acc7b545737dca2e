// q4_0: the 16 consecutive weights of group i, dequantised as gguf/quants.py does
// shapes: planes qs (16 bytes a block of 32), d (float16)
// grid: none (library); the kernel declares W_data: array<vec4<u32>>
// limits: whole blocks per row
// import lib/unpack.wgsl
override W_plane1: u32 = 0u;
fn W_values(word: u32, d: f32) -> vec4<f32> {
  return (vec4<f32>(bytes_u(word & 0x0f0f0f0fu)) - 8.0) * d;
}
fn W_load16(i: u32) -> mat4x4<f32> {
  let b = i / 2u;
  let d = half_of(W_data[(W_plane1 + b / 2u) / 4u][(W_plane1 + b / 2u) % 4u], b % 2u);
  let q = W_data[b] >> vec4<u32>((i % 2u) * 4u);
  return mat4x4<f32>(W_values(q.x, d), W_values(q.y, d), W_values(q.z, d), W_values(q.w, d));
}
