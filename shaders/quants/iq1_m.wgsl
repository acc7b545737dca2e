// iq1_m: the 16 consecutive weights of group i, dequantised as gguf/quants_iq.py does
// shapes: planes qs (32), qh (16), scales (8, with the float16 scale); then the grid (W_table)
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
  let at = W_plane2 + (i / 16u) * 2u;
  let first = W_word(at);
  let second = W_word(at + 1u);
  // The nibbles of the scale of the block are the tops of its four 16-bit words.
  let d_bits = ((first >> 12u) & 15u) | ((first >> 24u) & 0xf0u)
    | ((second >> 4u) & 0xf00u) | ((second >> 16u) & 0xf000u);
  let r = i % 16u;
  let scale = select(first, second, r >= 8u) >> (((r / 4u) % 2u) * 16u + (r % 4u) * 3u);
  let d = half_of(d_bits, 0u) * f32(2u * (scale & 7u) + 1u);
  let q = W_word(i / 2u) >> ((i % 2u) * 16u);
  let qh = W_word(W_plane1 + i / 4u) >> ((i % 4u) * 8u);
  let u = W_grid((q & 255u) | ((qh & 7u) << 8u));
  let v = W_grid(((q >> 8u) & 255u) | ((qh & 112u) << 4u));
  let s = W_shift((qh & 8u) != 0u);
  let t = W_shift((qh & 128u) != 0u);
  return mat4x4<f32>(
    W_values(u, s, d), W_values(u >> 8u, s, d), W_values(v, t, d), W_values(v >> 8u, t, d));
}
