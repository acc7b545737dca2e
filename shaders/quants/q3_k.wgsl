// q3_k: the 16 consecutive weights of group i, dequantised as gguf/quants_k.py does
// shapes: planes qs (64 bytes a block of 256), qh (third bits, 32), scales (12), d (float16)
// grid: none (library); the kernel declares W_data: array<vec4<u32>>
// limits: whole blocks per row
// import lib/unpack.wgsl
override W_plane1: u32 = 0u;
override W_plane2: u32 = 0u;
override W_plane3: u32 = 0u;
fn W_word(at: u32) -> u32 { return W_data[at / 4u][at % 4u]; }
fn W_values(low: u32, high: u32, d: f32) -> vec4<f32> {
  let q = (low & 0x03030303u) | ((high & 0x01010101u) << 2u);
  return (vec4<f32>(bytes_u(q)) - 4.0) * d;
}
// Scale of sub-block r: a nibble of the first eight bytes and two bits of the last four.
fn W_scale(b: u32, r: u32) -> f32 {
  let low = W_word(W_plane2 + b * 3u + (r / 4u) % 2u) >> ((r % 4u) * 8u + (r / 8u) * 4u);
  let high = W_word(W_plane2 + b * 3u + 2u) >> ((r % 4u) * 8u + (r / 4u) * 2u);
  return f32((low & 15u) | ((high & 3u) << 4u)) - 32.0;
}
fn W_load16(i: u32) -> mat4x4<f32> {
  let b = i / 16u;
  let r = i % 16u;
  let d = half_of(W_word(W_plane3 + b / 2u), b % 2u) * W_scale(b, r);
  let q = W_data[b * 4u + (r / 8u) * 2u + r % 2u] >> vec4<u32>(((r % 8u) / 2u) * 2u);
  let h = W_data[W_plane1 / 4u + b * 2u + r % 2u] >> vec4<u32>(r / 2u);
  return mat4x4<f32>(
    W_values(q.x, h.x, d), W_values(q.y, h.y, d), W_values(q.z, h.z, d), W_values(q.w, h.w, d));
}
