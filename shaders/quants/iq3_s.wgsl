// iq3_s: the 16 consecutive weights of group i, dequantised as gguf/quants_iq.py does
// shapes: planes qs (64), signs (32), qh (8), scales (4), d (float16); then the grid (W_table)
// grid: none (library); the kernel declares W_data: array<vec4<u32>>
// limits: whole blocks of 256 per row
// import lib/unpack.wgsl
// import lib/codes.wgsl
override W_plane1: u32 = 0u;
override W_plane2: u32 = 0u;
override W_plane3: u32 = 0u;
override W_plane4: u32 = 0u;
override W_table: u32 = 0u;
fn W_word(at: u32) -> u32 { return W_data[at / 4u][at % 4u]; }
fn W_values(low: u32, high: u32, signs: u32, d: f32) -> vec4<f32> {
  let at = (low & 255u) | ((high & 1u) << 8u);
  let c = codes4(W_word(W_table + at / 2u) >> ((at % 2u) * 16u));
  return negate(d * vec4<f32>(c * 2u + vec4<u32>(1u)), signs);
}
fn W_load16(i: u32) -> mat4x4<f32> {
  let b = i / 16u;
  let q = W_word(i);
  let s = W_word(W_plane1 + i / 2u) >> ((i % 2u) * 16u);
  let h = W_word(W_plane2 + i / 8u) >> ((i % 8u) * 4u);
  let scale = (W_word(W_plane3 + b) >> (((i % 16u) / 2u) * 4u)) & 15u;
  let d = half_of(W_word(W_plane4 + b / 2u), b % 2u) * f32(1u + 2u * scale);
  return mat4x4<f32>(
    W_values(q, h, s, d), W_values(q >> 8u, h >> 1u, s >> 4u, d),
    W_values(q >> 16u, h >> 2u, s >> 8u, d), W_values(q >> 24u, h >> 3u, s >> 12u, d));
}
