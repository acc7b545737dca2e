// q8_0: the 16 consecutive weights of group i, dequantised as gguf/quants.py does
// shapes: planes qs (32 int8 a block), d (float16)
// grid: none (library); the kernel declares W_data: array<vec4<u32>>
// limits: whole blocks per row
// import lib/unpack.wgsl
override W_plane1: u32 = 0u;
fn W_load16(i: u32) -> mat4x4<f32> {
  let b = i / 2u;
  let d = half_of(W_data[(W_plane1 + b / 2u) / 4u][(W_plane1 + b / 2u) % 4u], b % 2u);
  let q = W_data[i];
  return mat4x4<f32>(
    vec4<f32>(bytes_i(q.x)) * d, vec4<f32>(bytes_i(q.y)) * d,
    vec4<f32>(bytes_i(q.z)) * d, vec4<f32>(bytes_i(q.w)) * d);
}
