// q4_0: the 16 consecutive weights of group i, dequantised as gguf/quants.py does
// shapes: planes qs (16 bytes a block of 32), d (float16)
// grid: none (library); the kernel declares W_data: array<vec4<u32>>
// limits: whole blocks per row
// import lib/unpack.wgsl
override W_plane1: u32 = 0u;
const W_LOW = 0u;
fn W_raw16(i: u32) -> Codes16 {
  let b = i / 2u;
  let d = half_of(W_data[(W_plane1 + b / 2u) / 4u][(W_plane1 + b / 2u) % 4u], b % 2u);
  let q = (W_data[b] >> vec4<u32>((i % 2u) * 4u)) & vec4<u32>(0x0f0f0f0fu);
  return Codes16(q, d, 0.0);
}
fn W_codes16(i: u32) -> Codes16 { return codes_less(W_raw16(i), 0x08080808u); }
fn W_load16(i: u32) -> mat4x4<f32> { return values_less(W_raw16(i), 8.0); }
