// iq1_s: the 16 consecutive weights of group i, dequantised as gguf/quants_iq.py does
// shapes: planes qs (32), qh (16), d (float16); then the grid (W_table)
// grid: none (library); the kernel declares W_data: array<vec4<u32>>
// limits: whole blocks of 256 per row
// import lib/unpack.wgsl
// import lib/codes.wgsl
override W_plane1: u32 = 0u;
override W_plane2: u32 = 0u;
override W_table: u32 = 0u;
fn W_word(at: u32) -> u32 { return W_data[at / 4u][at % 4u]; }
// Codes 0, 1, 2 are worth -1, 0, 1; all eight of a vector are shifted by an eighth.
fn W_values(bits: u32, shift: f32, d: f32) -> vec4<f32> {
  return d * ((vec4<f32>(codes2(bits)) - 1.0) + shift);
}
fn W_grid(index: u32) -> u32 { return W_word(W_table + index / 2u) >> ((index % 2u) * 16u); }
fn W_shift(is_low: bool) -> f32 { return select(0.125, -0.125, is_low); }
fn W_load16(i: u32) -> mat4x4<f32> {
  let b = i / 16u;
  let q = W_word(i / 2u) >> ((i % 2u) * 16u);
  let qh = W_word(W_plane1 + i / 4u) >> (((i / 2u) % 2u) * 16u);
  let high = qh >> ((i % 2u) * 6u);
  let d = half_of(W_word(W_plane2 + b / 2u), b % 2u) * f32(2u * ((qh >> 12u) & 7u) + 1u);
  let u = W_grid((q & 255u) | ((high & 7u) << 8u));
  let v = W_grid(((q >> 8u) & 255u) | ((high & 56u) << 5u));
  let s = W_shift((qh & 0x8000u) != 0u);
  return mat4x4<f32>(
    W_values(u, s, d), W_values(u >> 8u, s, d), W_values(v, s, d), W_values(v >> 8u, s, d));
}
