// codes: 32 columns of a row as int8, as the storage type has them
// shapes: codes of two groups of 16, each with its scale and what its values lie above
// grid: none (library); the kernel declares Q_data
// limits: types whose file has Q_codes16
// import quant as Q
const W_LOW = Q_LOW;
struct Codes32 { a: vec4<u32>, b: vec4<u32>, scales: vec2<f32>, lows: vec2<f32> }

fn W_codes32(g: u32, has_b: bool) -> Codes32 {
  let a = Q_codes16(g);
  var b = Codes16(vec4<u32>(0u), 0.0, 0.0);
  if (has_b) { b = Q_codes16(g + 1u); }
  return Codes32(a.codes, b.codes, vec2<f32>(a.scale, b.scale), vec2<f32>(a.low, b.low));
}
