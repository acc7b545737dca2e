// tq1_0: the 16 consecutive weights of group i, dequantised as gguf/quants_iq.py does
// shapes: planes qs (48 bytes a block of 256, five digits each), qh (4, four each), d (float16)
// grid: none (library); the kernel declares W_data: array<vec4<u32>>
// limits: whole blocks per row
// import lib/unpack.wgsl
override W_plane1: u32 = 0u;
override W_plane2: u32 = 0u;
fn W_word(at: u32) -> u32 { return W_data[at / 4u][at % 4u]; }
// One digit of each of four bytes: the first ternary digit of byte * power mod 256.
fn W_values(word: u32, power: u32, d: f32) -> vec4<f32> {
  let rest = (bytes_u(word) * power) & vec4<u32>(255u);
  return (vec4<f32>((rest * 3u) >> vec4<u32>(8u)) - 1.0) * d;
}
fn W_power(digit: u32) -> u32 {
  let high = select(select(81u, 27u, digit == 3u), 9u, digit == 2u);
  return select(select(high, 3u, digit == 1u), 1u, digit == 0u);
}
fn W_load16(i: u32) -> mat4x4<f32> {
  let b = i / 16u;
  let r = i % 16u;
  let d = half_of(W_word(W_plane2 + b / 2u), b % 2u);
  if (r == 15u) {
    let h = W_word(W_plane1 + b);
    return mat4x4<f32>(
      W_values(h, 1u, d), W_values(h, 3u, d), W_values(h, 9u, d), W_values(h, 27u, d));
  }
  let is_short = r >= 10u;
  let p = W_power(select(r / 2u, r - 10u, is_short));
  let q = W_data[b * 3u + select(r % 2u, 2u, is_short)];
  return mat4x4<f32>(
    W_values(q.x, p, d), W_values(q.y, p, d), W_values(q.z, p, d), W_values(q.w, p, d));
}
