// mxfp4: the 16 consecutive weights of group i, dequantised as gguf/quants_iq.py does
// shapes: planes qs (16 bytes a block of 32), e (exponent byte)
// grid: none (library); the kernel declares W_data: array<vec4<u32>>
// limits: whole blocks per row
// import lib/unpack.wgsl
// import lib/codes.wgsl
override W_plane1: u32 = 0u;
fn W_word(at: u32) -> u32 { return W_data[at / 4u][at % 4u]; }
// Codes are worth 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 (E2M1, doubled),
// times 2 ** (e - 128). For e < 2 the factor is subnormal and arithmetic may flush it, so
// the bits are put together: a small value's are its shifted mantissa.
fn W_values(word: u32, e: u32) -> vec4<f32> {
  let worth = vec4<u32>(0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu);
  let n = lookup16(bytes_u(word & 0x0f0f0f0fu), worth);
  if (e >= 2u) { return vec4<f32>(n) * bitcast<f32>((e - 1u) << 23u); }
  let size = vec4<u32>(abs(n));
  let normal = bitcast<vec4<u32>>(vec4<f32>(size)) - vec4<u32>((128u - e) << 23u);
  let bits = select(normal, size << vec4<u32>(21u + e), (size << vec4<u32>(e)) < vec4<u32>(4u));
  return bitcast<vec4<f32>>(bits | (bitcast<vec4<u32>>(n) & vec4<u32>(0x80000000u)));
}
fn W_load16(i: u32) -> mat4x4<f32> {
  let b = i / 2u;
  let e = (W_word(W_plane1 + b / 4u) >> ((b % 4u) * 8u)) & 255u;
  let q = W_data[b] >> vec4<u32>((i % 2u) * 4u);
  return mat4x4<f32>(W_values(q.x, e), W_values(q.y, e), W_values(q.z, e), W_values(q.w, e));
}
