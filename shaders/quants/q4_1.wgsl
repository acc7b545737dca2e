// q4_1: the 16 consecutive weights of group i, dequantised as gguf/quants.py does
// shapes: planes qs (16 bytes a block of 32), dm (scale and minimum, float16)
// grid: none (library); the kernel declares W_data: array<vec4<u32>>
// limits: whole blocks per row
// import lib/unpack.wgsl
override W_plane1: u32 = 0u;
const W_LOW = 1u;
fn W_codes16(i: u32) -> Codes16 {
  let b = i / 2u;
  let dm = unpack2x16float(W_data[(W_plane1 + b) / 4u][(W_plane1 + b) % 4u]);
  let q = W_data[b] >> vec4<u32>((i % 2u) * 4u);
  return Codes16(q & vec4<u32>(0x0f0f0f0fu), dm.x, dm.y);
}
fn W_load16(i: u32) -> mat4x4<f32> { return values_above(W_codes16(i)); }
