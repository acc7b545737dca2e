// turned: one value of a q or k head of a decoded token, normalised and rotated (q tempered)
// shapes: qkv [(N_HEAD + 2 N_HEAD_KV) * HEAD_DIM]; table [n_ctx, N_ROT / 2] (cos, sin)
// grid: none (library); the kernel declares D4, qkv, table and norms, and imports step and temper
// limits: N_ROT even, 0 for no rotation; NEOX 1 pairs p with p + N_ROT / 2, 0 pairs neighbours
override N_HEAD: u32 = 1u;
override N_HEAD_KV: u32 = 1u;
override N_ROT: u32 = 2u;
override NEOX: u32 = 0u;
override HAS_NORM: u32 = 0u;
override ROW_NORM: u32 = 0u;  // 1: one norm over all heads of q, and one over those of k
override EACH_NORM: u32 = 0u;  // 1: each head has weights of its own
override IS_CENTRED: u32 = 0u;  // 1: LayerNorm; `stat` is (mean, inverse deviation) of what is normed
override EPS: f32 = 1e-6;
override CLAMP: f32 = 0.0;  // 0: none

fn value(i: u32) -> f32 {
  if (CLAMP == 0.0) { return qkv[i]; }
  return clamp(qkv[i], -CLAMP, CLAMP);
}

fn normed(base: u32, d: u32, stat: vec2<f32>, is_key: bool) -> f32 {
  let v = value(base + d);
  if (HAS_NORM == 0u) { return v; }
  let scaled = (v - stat.x) * stat.y;
  if (is_key) { return scaled * k_norm[select(d, base + d - N_HEAD * D4 * 4u, EACH_NORM != 0u)]; }
  return scaled * q_norm[select(d, base + d, EACH_NORM != 0u)];
}

fn turned(base: u32, d: u32, stat: vec2<f32>, is_key: bool) -> f32 {
  let v = normed(base, d, stat, is_key);
  if (d >= N_ROT) { return v; }
  let n_pairs = max(N_ROT / 2u, 1u);
  let pair = select(d / 2u, d % n_pairs, NEOX != 0u);
  let is_first = select(d % 2u == 0u, d < n_pairs, NEOX != 0u);
  let gap = select(1u, n_pairs, NEOX != 0u);
  let turn = table[step.pos * n_pairs + pair];
  if (is_first) { return v * turn.x - normed(base, d + gap, stat, is_key) * turn.y; }
  return normed(base, d - gap, stat, is_key) * turn.y + v * turn.x;
}

fn turned4(base: u32, d4: u32, stat: vec2<f32>, is_key: bool) -> vec4<f32> {
  let d = d4 * 4u;
  let v = vec4<f32>(
    turned(base, d, stat, is_key), turned(base, d + 1u, stat, is_key),
    turned(base, d + 2u, stat, is_key), turned(base, d + 3u, stat, is_key));
  if (is_key) { return v; }
  return v * temper(step.pos);
}

fn raw4(base: u32, d4: u32) -> vec4<f32> {
  let d = base + d4 * 4u;
  return vec4<f32>(value(d), value(d + 1u), value(d + 2u), value(d + 3u));
}
