// int8: 16 values as bytes, four to a word, by a scale that they share with others
// shapes: values as a mat4x4, codes as a vec4 of words
// grid: none (library)
// limits: |code| <= 127; values that are no numbers give a scale that is none, and any codes
//! needs packed_4x8_integer_dot_product

fn int8_bits(v: vec4<f32>) -> vec4<u32> { return bitcast<vec4<u32>>(v) & vec4<u32>(0x7fffffffu); }

// The bits of the largest magnitude: without a sign they order as floats do, a NaN above all.
fn int8_top(m: mat4x4<f32>) -> u32 {
  let top = max(max(int8_bits(m[0]), int8_bits(m[1])), max(int8_bits(m[2]), int8_bits(m[3])));
  return max(max(top.x, top.y), max(top.z, top.w));
}

fn int8_scale(top: u32) -> f32 { return bitcast<f32>(top) / 127.0; }

fn int8_word(v: vec4<f32>, inverse: f32) -> u32 {
  // Clamped before it is an integer: a conversion out of range may give anything.
  return pack4xI8(vec4<i32>(clamp(round(v * inverse), vec4<f32>(-127.0), vec4<f32>(127.0))));
}

fn int8_codes(m: mat4x4<f32>, scale: f32) -> vec4<u32> {
  // Of values too small to divide by, nothing is left.
  let inverse = select(0.0, 1.0 / scale, scale > 1e-37);
  return vec4<u32>(
    int8_word(m[0], inverse), int8_word(m[1], inverse),
    int8_word(m[2], inverse), int8_word(m[3], inverse));
}
