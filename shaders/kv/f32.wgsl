// kv f32: cache values as they are
// shapes: a word holds 4 consecutive values, and is a block
// grid: none (library); the kernel declares k_cache and v_cache: array<W_word>
// limits: none
alias W_word = vec4<f32>;
const W_FOURS = 1u;
const W_WORDS = 1u;
fn W_key(i: u32) -> vec4<f32> { return k_cache[i]; }
fn W_value(i: u32) -> vec4<f32> { return v_cache[i]; }
fn W_decode(block: ptr<function, array<W_word, W_WORDS>>, i: u32) -> vec4<f32> { return (*block)[i]; }
fn W_encode(fours: ptr<function, array<vec4<f32>, W_FOURS>>) -> array<W_word, W_WORDS> {
  return array<W_word, W_WORDS>((*fours)[0]);
}
