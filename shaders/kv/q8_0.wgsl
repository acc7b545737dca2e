// kv q8_0: cache values as codes of 8 bits and a float16 scale for each 32; see ops/kv_cache.py
// shapes: a block of 9 words: the scale in the lower half of the first, then 4 codes to a word
// grid: none (library); the kernel declares k_cache and v_cache: array<W_word>
// limits: heads of whole blocks; a block's largest value over 127 is at most 65504
// import lib/unpack.wgsl
alias W_word = u32;
const W_FOURS = 8u;
const W_WORDS = 9u;
fn W_four(scale: u32, codes: u32) -> vec4<f32> {
  return vec4<f32>(bytes_i(codes)) * half_of(scale, 0u);
}
fn W_key(i: u32) -> vec4<f32> {
  let block = i / W_FOURS * W_WORDS;
  return W_four(k_cache[block], k_cache[block + 1u + i % W_FOURS]);
}
fn W_value(i: u32) -> vec4<f32> {
  let block = i / W_FOURS * W_WORDS;
  return W_four(v_cache[block], v_cache[block + 1u + i % W_FOURS]);
}
fn W_decode(block: ptr<function, array<W_word, W_WORDS>>, i: u32) -> vec4<f32> {
  return W_four((*block)[0], (*block)[1u + i]);
}
fn W_encode(fours: ptr<function, array<vec4<f32>, W_FOURS>>) -> array<W_word, W_WORDS> {
  var most = vec4<f32>(0.0);
  for (var i = 0u; i < W_FOURS; i++) { most = max(most, abs((*fours)[i])); }
  let top = max(max(most.x, most.y), max(most.z, most.w));
  // What is too small to divide by counts as zero.
  let by = select(0.0, 127.0 / top, top > 1.0e-30);
  var block: array<W_word, W_WORDS>;
  block[0] = pack2x16float(vec2<f32>(min(top / 127.0, 65504.0), 0.0));
  for (var i = 0u; i < W_FOURS; i++) {
    let codes = vec4<u32>(vec4<i32>(round((*fours)[i] * by))) & vec4<u32>(255u);
    block[1u + i] = codes.x | (codes.y << 8u) | (codes.z << 16u) | (codes.w << 24u);
  }
  return block;
}
