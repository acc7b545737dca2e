// codes: packed codes, signs and codebooks of the storage types below 5 bits
// shapes: u32 -> vec4, lowest bits first
// grid: none (library)
// limits: shifts, masks and selects only; no arrays, which some compilers copy at every use
fn codes2(bits: u32) -> vec4<u32> {
  return (vec4<u32>(bits) >> vec4<u32>(0u, 2u, 4u, 6u)) & vec4<u32>(3u);
}

fn codes4(bits: u32) -> vec4<u32> {
  return (vec4<u32>(bits) >> vec4<u32>(0u, 4u, 8u, 12u)) & vec4<u32>(15u);
}

// What four codes of 4 bits are worth in a table of 16 int8.
fn lookup16(codes: vec4<u32>, table: vec4<u32>) -> vec4<i32> {
  let odd = (codes & vec4<u32>(4u)) != vec4<u32>(0u);
  let low = select(vec4<u32>(table.x), vec4<u32>(table.y), odd);
  let high = select(vec4<u32>(table.z), vec4<u32>(table.w), odd);
  let word = select(low, high, codes > vec4<u32>(7u));
  let top = word << ((vec4<u32>(3u) - (codes & vec4<u32>(3u))) * 8u);
  return bitcast<vec4<i32>>(top) >> vec4<u32>(24u);
}

// Seven signs and the eighth, which makes the number of minus signs even.
fn even_signs(seven: u32) -> u32 {
  return (seven & 127u) | ((countOneBits(seven & 127u) & 1u) << 7u);
}

// Flips the sign of lane j where bit j is set; zeros too.
fn negate(v: vec4<f32>, bits: u32) -> vec4<f32> {
  let signs = (vec4<u32>(bits) << vec4<u32>(31u, 30u, 29u, 28u)) & vec4<u32>(0x80000000u);
  return bitcast<vec4<f32>>(bitcast<vec4<u32>>(v) ^ signs);
}

// Codes 0, 1, 2 of the IQ2 grids are worth 8, 25, 43.
fn worth_iq2(codes: vec4<u32>) -> vec4<f32> {
  return vec4<f32>(codes * 17u + (codes >> vec4<u32>(1u)) + vec4<u32>(8u));
}
