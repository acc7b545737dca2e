// q6_k: the 16 consecutive weights of group i, dequantised as gguf/quants.py does
// shapes: planes ql (128 bytes a block of 256), qh (64), scales (16 int8), d (float16)
// grid: none (library); the kernel declares W_data: array<vec4<u32>>
// limits: whole blocks per row
// import lib/unpack.wgsl
override W_plane1: u32 = 0u;
override W_plane2: u32 = 0u;
override W_plane3: u32 = 0u;
fn W_values(low: u32, high: u32, d: f32) -> vec4<f32> {
  let q = (low & 0x0f0f0f0fu) | ((high & 0x03030303u) << 4u);
  return (vec4<f32>(bytes_u(q)) - 32.0) * d;
}
fn W_load16(i: u32) -> mat4x4<f32> {
  let b = i / 16u;
  let r = i % 16u;
  let side = r / 8u;
  let d_block = half_of(W_data[(W_plane3 + b / 2u) / 4u][(W_plane3 + b / 2u) % 4u], b % 2u);
  let scales = W_data[W_plane2 / 4u + b][r / 4u];
  let d = d_block * f32(bitcast<i32>(scales << (24u - (r % 4u) * 8u)) >> 24u);
  let low = W_data[b * 8u + side * 4u + r % 4u] >> vec4<u32>(((r % 8u) / 4u) * 4u);
  let high = W_data[W_plane1 / 4u + b * 4u + side * 2u + r % 2u] >> vec4<u32>(((r % 8u) / 2u) * 2u);
  return mat4x4<f32>(
    W_values(low.x, high.x, d), W_values(low.y, high.y, d),
    W_values(low.z, high.z, d), W_values(low.w, high.w, d));
}
