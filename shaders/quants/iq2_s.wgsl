// iq2_s: the 16 consecutive weights of group i, dequantised as gguf/quants_iq.py does
// shapes: planes qs (32), signs (32), qh (8), scales (8), d (float16); then the grid (W_table)
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
  let q = W_word(i / 2u) >> ((i % 2u) * 16u);
  let signs = W_word(W_plane1 + i / 2u) >> ((i % 2u) * 16u);
  let high = W_word(W_plane2 + i / 8u) >> ((i % 8u) * 4u);
  let scale = (W_word(W_plane3 + i / 8u) >> ((i % 8u) * 4u)) & 15u;
  let d = half_of(W_word(W_plane4 + b / 2u), b % 2u) * (0.5 + f32(scale)) * 0.25;
  return W_vectors(
    (q & 255u) | ((high & 3u) << 8u), ((q >> 8u) & 255u) | ((high & 12u) << 6u), signs, d);
}
