// q6_k: the 16 consecutive weights of group i, dequantised as gguf/quants.py does
// shapes: planes ql (128 bytes a block of 256), qh (64), scales (16 int8), d (float16)
// grid: none (library); the kernel declares W_data: array<vec4<u32>>
// limits: whole blocks per row
// import lib/unpack.wgsl
override W_plane1: u32 = 0u;
override W_plane2: u32 = 0u;
override W_plane3: u32 = 0u;
const W_LOW = 0u;
fn W_raw16(i: u32) -> Codes16 {
  let b = i / 16u;
  let r = i % 16u;
  let side = r / 8u;
  let d_block = half_of(W_data[(W_plane3 + b / 2u) / 4u][(W_plane3 + b / 2u) % 4u], b % 2u);
  let scales = W_data[W_plane2 / 4u + b][r / 4u];
  let d = d_block * f32(bitcast<i32>(scales << (24u - (r % 4u) * 8u)) >> 24u);
  let low = W_data[b * 8u + side * 4u + r % 4u] >> vec4<u32>(((r % 8u) / 4u) * 4u);
  let high = W_data[W_plane1 / 4u + b * 4u + side * 2u + r % 2u] >> vec4<u32>(((r % 8u) / 2u) * 2u);
  let q = (low & vec4<u32>(0x0f0f0f0fu)) | ((high & vec4<u32>(0x03030303u)) << vec4<u32>(4u));
  return Codes16(q, d, 0.0);
}
fn W_codes16(i: u32) -> Codes16 { return codes_less(W_raw16(i), 0x20202020u); }
fn W_load16(i: u32) -> mat4x4<f32> { return values_less(W_raw16(i), 32.0); }
