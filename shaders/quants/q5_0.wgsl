// q5_0: the 16 consecutive weights of group i, dequantised as gguf/quants.py does
// shapes: planes qs (16 bytes a block of 32), qh (fifth bits, 4 bytes), d (float16)
// grid: none (library); the kernel declares W_data: array<vec4<u32>>
// limits: whole blocks per row
// import lib/unpack.wgsl
override W_plane1: u32 = 0u;
override W_plane2: u32 = 0u;
const W_LOW = 0u;
fn W_word(low: u32, high: u32) -> u32 {
  // The product puts bit k of four into byte k.
  return (low & 0x0f0f0f0fu) | ((((high & 15u) * 0x00204081u) & 0x01010101u) << 4u);
}
fn W_raw16(i: u32) -> Codes16 {
  let b = i / 2u;
  let h = W_data[(W_plane1 + b) / 4u][(W_plane1 + b) % 4u] >> ((i % 2u) * 16u);
  let d = half_of(W_data[(W_plane2 + b / 2u) / 4u][(W_plane2 + b / 2u) % 4u], b % 2u);
  let q = W_data[b] >> vec4<u32>((i % 2u) * 4u);
  let codes = vec4<u32>(
    W_word(q.x, h), W_word(q.y, h >> 4u), W_word(q.z, h >> 8u), W_word(q.w, h >> 12u));
  return Codes16(codes, d, 0.0);
}
fn W_codes16(i: u32) -> Codes16 { return codes_less(W_raw16(i), 0x10101010u); }
fn W_load16(i: u32) -> mat4x4<f32> { return values_less(W_raw16(i), 16.0); }
