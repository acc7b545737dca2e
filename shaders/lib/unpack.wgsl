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
