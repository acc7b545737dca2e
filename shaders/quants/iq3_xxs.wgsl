// iq3_xxs: the 16 consecutive weights of group i, dequantised as gguf/quants_iq.py does
// shapes: planes qs (64), scales (32, with the signs), d (float16); then the grid (W_table)
// grid: none (library); the kernel declares W_data: array<vec4<u32>>
// limits: whole blocks of 256 per row
// import lib/unpack.wgsl
// import lib/codes.wgsl
override W_plane1: u32 = 0u;
override W_plane2: u32 = 0u;
override W_table: u32 = 0u;
fn W_word(at: u32) -> u32 { return W_data[at / 4u][at % 4u]; }
// Codes 0 to 7 are worth 4, 12, 20, 28, 36, 44, 52, 62.
fn W_values(index: u32, signs: u32, d: f32) -> vec4<f32> {
  let at = index & 255u;
  let c = codes4(W_word(W_table + at / 2u) >> ((at % 2u) * 16u));
  let worth = c * 8u + vec4<u32>(4u) + ((c + vec4<u32>(1u)) >> vec4<u32>(3u)) * 2u;
  return negate(d * vec4<f32>(worth), signs);
}
fn W_load16(i: u32) -> mat4x4<f32> {
  let b = i / 16u;
  let q = W_word(i);
  let second = W_word(W_plane1 + i / 2u);
  let seven = second >> ((i % 2u) * 14u);
  let d = half_of(W_word(W_plane2 + b / 2u), b % 2u) * (0.5 + f32(second >> 28u)) * 0.5;
  let s = even_signs(seven);
  let t = even_signs(seven >> 7u);
  return mat4x4<f32>(
    W_values(q, s, d), W_values(q >> 8u, s >> 4u, d),
    W_values(q >> 16u, t, d), W_values(q >> 24u, t >> 4u, d));
}
