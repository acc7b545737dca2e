// mxfp4: the 16 consecutive weights of group i, dequantised as gguf/quants_iq.py does
// shapes: planes qs (16 bytes a block of 32), e (exponent byte)
// grid: none (library); the kernel declares W_data: array<vec4<u32>>
// limits: whole blocks per row
// import lib/unpack.wgsl
// import lib/codes.wgsl
override W_plane1: u32 = 0u;
fn W_word(at: u32) -> u32 { return W_data[at / 4u][at % 4u]; }
// Codes are worth 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 (E2M1, doubled).
fn W_values(word: u32, root: vec2<f32>) -> vec4<f32> {
  let worth = vec4<u32>(0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu);
  return vec4<f32>(lookup16(bytes_u(word & 0x0f0f0f0fu), worth)) * root.x * root.y;
}
fn W_load16(i: u32) -> mat4x4<f32> {
  let b = i / 2u;
  let e = (W_word(W_plane1 + b / 4u) >> ((b % 4u) * 8u)) & 255u;
  // 2 ** (e - 128) in two factors: as one it is subnormal for e < 2, which arithmetic may flush.
  let root = bitcast<vec2<f32>>((vec2<u32>(e / 2u, e - e / 2u) + vec2<u32>(63u)) << vec2<u32>(23u));
  let q = W_data[b] >> vec4<u32>((i % 2u) * 4u);
  return mat4x4<f32>(
    W_values(q.x, root), W_values(q.y, root), W_values(q.z, root), W_values(q.w, root));
}
