// codes: 32 columns of a row as int8, rounded from their values
// shapes: codes of two groups of 16, with one scale
// grid: none (library); the kernel declares Q_data
// limits: any storage type; an error of up to 1 / 254 of the largest of the 32 values
// import quant as Q
// import lib/int8.wgsl
const W_LOW = 0u;
struct Codes32 { a: vec4<u32>, b: vec4<u32>, scales: vec2<f32>, lows: vec2<f32> }

fn W_codes32(g: u32, has_b: bool) -> Codes32 {
  let a = Q_load16(g);
  var b = mat4x4<f32>();
  if (has_b) { b = Q_load16(g + 1u); }
  let scale = int8_scale(max(int8_top(a), int8_top(b)));
  return Codes32(int8_codes(a, scale), int8_codes(b, scale), vec2<f32>(scale), vec2<f32>(0.0));
}
