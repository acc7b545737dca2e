// q2_k: the 16 consecutive weights of group i, dequantised as gguf/quants_k.py does
// shapes: planes qs (64 bytes a block of 256), scales (16: nibbles), dm (float16 pair)
// grid: none (library); the kernel declares W_data: array<vec4<u32>>
// limits: whole blocks per row
// import lib/unpack.wgsl
override W_plane1: u32 = 0u;
override W_plane2: u32 = 0u;
fn W_word(at: u32) -> u32 { return W_data[at / 4u][at % 4u]; }
fn W_values(word: u32, scale: f32, low: f32) -> vec4<f32> {
  return vec4<f32>(bytes_u(word & 0x03030303u)) * scale - low;
}
fn W_load16(i: u32) -> mat4x4<f32> {
  let b = i / 16u;
  let r = i % 16u;
  let dm = unpack2x16float(W_word(W_plane2 + b));
  let sm = W_word(W_plane1 + i / 4u) >> ((r % 4u) * 8u);
  let d = dm.x * f32(sm & 15u);
  let m = dm.y * f32((sm >> 4u) & 15u);
  let q = W_data[b * 4u + (r / 8u) * 2u + r % 2u] >> vec4<u32>(((r % 8u) / 2u) * 2u);
  return mat4x4<f32>(
    W_values(q.x, d, m), W_values(q.y, d, m), W_values(q.z, d, m), W_values(q.w, d, m));
}
