// q5_k: the 16 consecutive weights of group i, dequantised as gguf/quants.py does
// shapes: one plane: blocks of 256 in 176 bytes: d, dmin, scales (16 bytes), qh (32), qs (128)
// grid: none (library); the kernel declares W_data: array<vec4<u32>>
// limits: whole blocks per row
// import lib/unpack.wgsl
// Scale and minimum of sub-block s from the block's first 16 bytes: d, dmin, then 8 + 8 six-bit
// numbers in 12 bytes, the upper bits of the last four of each in the top of the first eight.
fn W_scale_min(head: vec4<u32>, s: u32) -> vec2<f32> {
  let shift = (s % 4u) * 8u;
  let first = (head.y >> shift) & 255u;
  let second = (head.z >> shift) & 255u;
  let third = (head.w >> shift) & 255u;
  var sm = vec2<u32>(first & 63u, second & 63u);
  if (s >= 4u) {
    sm = vec2<u32>((third & 15u) | ((first >> 2u) & 48u), (third >> 4u) | ((second >> 2u) & 48u));
  }
  return unpack2x16float(head.x) * vec2<f32>(sm);
}

const W_LOW = 1u;
fn W_codes16(i: u32) -> Codes16 {
  let block = (i / 16u) * 11u;
  let s = (i % 16u) / 2u;
  let sm = W_scale_min(W_data[block], s);
  let h = (W_data[block + 1u + i % 2u] >> vec4<u32>(s)) & vec4<u32>(0x01010101u);
  let q = W_data[block + 3u + (s / 2u) * 2u + i % 2u] >> vec4<u32>((s % 2u) * 4u);
  return Codes16((q & vec4<u32>(0x0f0f0f0fu)) | (h << vec4<u32>(4u)), sm.x, -sm.y);
}
fn W_load16(i: u32) -> mat4x4<f32> { return values_above(W_codes16(i)); }
