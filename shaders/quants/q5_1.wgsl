// q5_1: the 16 consecutive weights of group i, dequantised as gguf/quants.py does
// shapes: planes qs (16 bytes a block of 32), qh (fifth bits, 4 bytes), dm (float16 pair)
// grid: none (library); the kernel declares W_data: array<vec4<u32>>
// limits: whole blocks per row
// import lib/unpack.wgsl
override W_plane1: u32 = 0u;
override W_plane2: u32 = 0u;
fn W_values(word: u32, high: u32, dm: vec2<f32>) -> vec4<f32> {
  return vec4<f32>(bytes_u(word & 0x0f0f0f0fu) | fifth_bits(high)) * dm.x + dm.y;
}
fn W_load16(i: u32) -> mat4x4<f32> {
  let b = i / 2u;
  let h = W_data[(W_plane1 + b) / 4u][(W_plane1 + b) % 4u] >> ((i % 2u) * 16u);
  let dm = unpack2x16float(W_data[(W_plane2 + b) / 4u][(W_plane2 + b) % 4u]);
  let q = W_data[b] >> vec4<u32>((i % 2u) * 4u);
  return mat4x4<f32>(
    W_values(q.x, h, dm), W_values(q.y, h >> 4u, dm),
    W_values(q.z, h >> 8u, dm), W_values(q.w, h >> 12u, dm));
}
