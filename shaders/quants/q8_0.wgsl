// q8_0: the 16 consecutive weights of group i, dequantised as gguf/quants.py does
// shapes: planes qs (32 int8 a block), d (float16)
// grid: none (library); the kernel declares W_data: array<vec4<u32>>
// limits: whole blocks per row
// import lib/unpack.wgsl
override W_plane1: u32 = 0u;
const W_LOW = 0u;
fn W_codes16(i: u32) -> Codes16 {
  let b = i / 2u;
  let d = half_of(W_data[(W_plane1 + b / 2u) / 4u][(W_plane1 + b / 2u) % 4u], b % 2u);
  return Codes16(W_data[i], d, 0.0);
}
fn W_load16(i: u32) -> mat4x4<f32> {
  let c = W_codes16(i);
  return mat4x4<f32>(
    vec4<f32>(bytes_i(c.codes.x)) * c.scale, vec4<f32>(bytes_i(c.codes.y)) * c.scale,
    vec4<f32>(bytes_i(c.codes.z)) * c.scale, vec4<f32>(bytes_i(c.codes.w)) * c.scale);
}
