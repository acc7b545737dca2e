// unpack: the four bytes of a word as lanes, lowest byte first
// shapes: u32 -> vec4
// grid: none (library)
// limits: shifts and masks only; unpack4xU8 is a language extension that a browser may lack
fn bytes_u(word: u32) -> vec4<u32> {
  return (vec4<u32>(word) >> vec4<u32>(0u, 8u, 16u, 24u)) & vec4<u32>(255u);
}

fn bytes_i(word: u32) -> vec4<i32> {
  return bitcast<vec4<i32>>(vec4<u32>(word) << vec4<u32>(24u, 16u, 8u, 0u)) >> vec4<u32>(24u);
}

// The low 4 bits of ``bits`` as 16 or 0 per lane: the fifth bits of four values.
fn fifth_bits(bits: u32) -> vec4<u32> {
  return ((vec4<u32>(bits) >> vec4<u32>(0u, 1u, 2u, 3u)) & vec4<u32>(1u)) << vec4<u32>(4u);
}

// Half ``index`` of a word that holds two float16 values.
fn half_of(word: u32, index: u32) -> f32 {
  return unpack2x16float(word >> (index * 16u)).x;
}

// 16 values that are whole numbers times a scale, plus a constant: four codes to a word, as int8.
struct Codes16 { codes: vec4<u32>, scale: f32, low: f32 }

// The same codes, below 128, each less the one in the same byte of ``by``.
fn codes_less(c: Codes16, by: u32) -> Codes16 {
  let signs = vec4<u32>(0x80808080u);
  return Codes16(((c.codes | signs) - vec4<u32>(by)) ^ signs, c.scale, c.low);
}

// The values of codes without sign, each less ``by``; scaled last, as the dequantiser does.
fn values_less(c: Codes16, by: f32) -> mat4x4<f32> {
  return mat4x4<f32>(
    (vec4<f32>(bytes_u(c.codes.x)) - by) * c.scale, (vec4<f32>(bytes_u(c.codes.y)) - by) * c.scale,
    (vec4<f32>(bytes_u(c.codes.z)) - by) * c.scale, (vec4<f32>(bytes_u(c.codes.w)) - by) * c.scale);
}

fn values_above(c: Codes16) -> mat4x4<f32> {
  return mat4x4<f32>(
    vec4<f32>(bytes_u(c.codes.x)) * c.scale + c.low, vec4<f32>(bytes_u(c.codes.y)) * c.scale + c.low,
    vec4<f32>(bytes_u(c.codes.z)) * c.scale + c.low, vec4<f32>(bytes_u(c.codes.w)) * c.scale + c.low);
}
