// tq2_0: the 16 consecutive weights of group i, dequantised as gguf/quants_iq.py does
// shapes: planes qs (64 bytes a block of 256), d (float16)
// grid: none (library); the kernel declares W_data: array<vec4<u32>>
// limits: whole blocks per row
// import lib/unpack.wgsl
override W_plane1: u32 = 0u;
fn W_word(at: u32) -> u32 { return W_data[at / 4u][at % 4u]; }
fn W_values(word: u32, d: f32) -> vec4<f32> {
  return (vec4<f32>(bytes_u(word & 0x03030303u)) - 1.0) * d;
}
fn W_load16(i: u32) -> mat4x4<f32> {
  let b = i / 16u;
  let r = i % 16u;
  let d = half_of(W_word(W_plane1 + b / 2u), b % 2u);
  let q = W_data[b * 4u + (r / 8u) * 2u + r % 2u] >> vec4<u32>(((r % 8u) / 2u) * 2u);
  return mat4x4<f32>(W_values(q.x, d), W_values(q.y, d), W_values(q.z, d), W_values(q.w, d));
}
