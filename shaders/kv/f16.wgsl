// kv f16: cache values as pairs of float16, without the shader-f16 feature
// shapes: a word holds 4 consecutive values, and is a block
// grid: none (library); the kernel declares k_cache and v_cache: array<W_word>
// limits: values beyond 65504 are clamped, since packing them is undefined
alias W_word = vec2<u32>;
const W_FOURS = 1u;
const W_WORDS = 1u;
fn W_four(word: W_word) -> vec4<f32> {
  return vec4<f32>(unpack2x16float(word.x), unpack2x16float(word.y));
}
fn W_key(i: u32) -> vec4<f32> { return W_four(k_cache[i]); }
fn W_value(i: u32) -> vec4<f32> { return W_four(v_cache[i]); }
fn W_decode(block: ptr<function, array<W_word, W_WORDS>>, i: u32) -> vec4<f32> {
  return W_four((*block)[i]);
}
fn W_encode(fours: ptr<function, array<vec4<f32>, W_FOURS>>) -> array<W_word, W_WORDS> {
  let c = clamp((*fours)[0], vec4<f32>(-65504.0), vec4<f32>(65504.0));
  return array<W_word, W_WORDS>(vec2<u32>(pack2x16float(c.xy), pack2x16float(c.zw)));
}
