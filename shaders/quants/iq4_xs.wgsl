// iq4_xs: the 16 consecutive weights of group i, dequantised as gguf/quants_iq.py does
// shapes: planes qs (128 bytes a block of 256), head (8: d, upper and lower bits of eight scales)
// grid: none (library); the kernel declares W_data: array<vec4<u32>>
// limits: whole blocks per row
// import lib/unpack.wgsl
// import lib/codes.wgsl
override W_plane1: u32 = 0u;
fn W_word(at: u32) -> u32 { return W_data[at / 4u][at % 4u]; }
// Codes are worth -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113
fn W_values(word: u32, d: f32) -> vec4<f32> {
  let worth = vec4<u32>(0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u);
  return d * vec4<f32>(lookup16(bytes_u(word & 0x0f0f0f0fu), worth));
}
fn W_load16(i: u32) -> mat4x4<f32> {
  let b = i / 16u;
  let s = (i % 16u) / 2u;
  let head = W_word(W_plane1 + b * 2u);
  let low = W_word(W_plane1 + b * 2u + 1u) >> (s * 4u);
  let scale = (low & 15u) | (((head >> (16u + s * 2u)) & 3u) << 4u);
  let d = half_of(head, 0u) * (f32(scale) - 32.0);
  let q = W_data[b * 8u + s] >> vec4<u32>((i % 2u) * 4u);
  return mat4x4<f32>(W_values(q.x, d), W_values(q.y, d), W_values(q.z, d), W_values(q.w, d));
}
