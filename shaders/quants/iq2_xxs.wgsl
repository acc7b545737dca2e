// iq2_xxs: the 16 consecutive weights of group i, dequantised as gguf/quants_iq.py does
// shapes: planes qs (64), d (float16); then the grid (W_table)
// grid: none (library); the kernel declares W_data: array<vec4<u32>>
// limits: whole blocks of 256 per row
// import lib/unpack.wgsl
// import lib/codes.wgsl
override W_plane1: u32 = 0u;
override W_table: u32 = 0u;
fn W_word(at: u32) -> u32 { return W_data[at / 4u][at % 4u]; }
fn W_grid(index: u32) -> u32 { return W_word(W_table + index / 2u) >> ((index % 2u) * 16u); }
// Sixteen values: two vectors of the grid, and their signs.
fn W_vectors(a: u32, b: u32, signs: u32, d: f32) -> mat4x4<f32> {
  let u = W_grid(a);
  let v = W_grid(b);
  return mat4x4<f32>(
    negate(d * worth_iq2(codes2(u)), signs),
    negate(d * worth_iq2(codes2(u >> 8u)), signs >> 4u),
    negate(d * worth_iq2(codes2(v)), signs >> 8u),
    negate(d * worth_iq2(codes2(v >> 8u)), signs >> 12u));
}
fn W_load16(i: u32) -> mat4x4<f32> {
  let b = i / 16u;
  let at = (i / 2u) * 2u;
  let second = W_word(at + 1u);
  let index = W_word(at) >> ((i % 2u) * 16u);
  let seven = second >> ((i % 2u) * 14u);
  let d = half_of(W_word(W_plane1 + b / 2u), b % 2u) * (0.5 + f32(second >> 28u)) * 0.25;
  let signs = even_signs(seven) | (even_signs(seven >> 7u) << 8u);
  return W_vectors(index & 255u, (index >> 8u) & 255u, signs, d);
}
