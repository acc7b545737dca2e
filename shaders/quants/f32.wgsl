// f32: the 16 consecutive weights of group i, dequantised as gguf/quants.py does
// shapes: one plane of float32
// grid: none (library); the kernel declares W_data: array<vec4<u32>>
// limits: N_COLS % 16 == 0 (f32_tail otherwise)
fn W_load16(i: u32) -> mat4x4<f32> {
  let p = i * 4u;
  return mat4x4<f32>(
    bitcast<vec4<f32>>(W_data[p]), bitcast<vec4<f32>>(W_data[p + 1u]),
    bitcast<vec4<f32>>(W_data[p + 2u]), bitcast<vec4<f32>>(W_data[p + 3u]));
}
