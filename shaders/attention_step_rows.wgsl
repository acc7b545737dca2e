// attention_step (rows family): norm, rotate, store and attend one token; see ops/attention.py
// shapes: qkv: N_HEAD + N_HEAD_KV heads of 4 D4, then N_HEAD_KV of 4 V4; caches [n_ctx, ..]; y
// grid: one thread per q head; the first head of a kv group writes the cache; no barriers
// limits: one token; heads of whole fours: D4 of a key, V4 of a value
//! const D4: u32 = 16u
//! const V4: u32 = 16u
// import lib/step.wgsl
// import lib/activation.wgsl
// import kv as C
// import lib/attend8.wgsl
// import lib/temper.wgsl
// import lib/turned.wgsl
// import lib/sink.wgsl
override WG_SIZE: u32 = 8u;
override WINDOW: u32 = 0u;
override V_NORM: u32 = 0u;  // 1: each head of v is normed, without a weight
@group(0) @binding(0) var<storage, read> qkv: array<f32>;
@group(0) @binding(1) var<storage, read> table: array<vec2<f32>>;
@group(0) @binding(2) var<storage, read> q_norm: array<f32>;
@group(0) @binding(3) var<storage, read> k_norm: array<f32>;
@group(0) @binding(4) var<storage, read> sinks: array<f32>;
@group(0) @binding(5) var<storage, read_write> k_cache: array<C_word>;
@group(0) @binding(6) var<storage, read_write> v_cache: array<C_word>;
@group(0) @binding(7) var<storage, read_write> y: array<vec4<f32>>;
@group(0) @binding(8) var<uniform> step: Step;

// (mean or 0, inverse deviation from it) of a head, or of all heads.
fn stat_of(base: u32, n4: u32, is_centred: bool) -> vec2<f32> {
  var mean = 0.0;
  if (is_centred) {
    for (var d = 0u; d < n4; d++) { mean += dot(raw4(base, d), vec4<f32>(1.0)); }
    mean /= f32(n4 * 4u);
  }
  var squares = 0.0;
  for (var d = 0u; d < n4; d++) {
    let v = raw4(base, d) - mean;
    squares += dot(v, v);
  }
  return vec2<f32>(mean, 1.0 / sqrt(squares / f32(n4 * 4u) + EPS));
}

@compute @workgroup_size(WG_SIZE)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let head = wg.x * WG_SIZE + li;
  if (head >= N_HEAD) { return; }
  let group = N_HEAD / N_HEAD_KV;
  let head_kv = head / group;
  let q_base = head * D4 * 4u;
  let k_base = (N_HEAD + head_kv) * D4 * 4u;
  let v_base = ((N_HEAD + N_HEAD_KV) * D4 + head_kv * V4) * 4u;
  var q_stat = vec2<f32>(0.0, 1.0);
  var k_stat = q_stat;
  var v_inv = 1.0;
  if (ROW_NORM != 0u) {
    q_stat = stat_of(0u, N_HEAD * D4, IS_CENTRED != 0u);
    k_stat = stat_of(N_HEAD * D4 * 4u, N_HEAD_KV * D4, IS_CENTRED != 0u);
  } else if (HAS_NORM != 0u) {
    q_stat = stat_of(q_base, D4, IS_CENTRED != 0u);
    k_stat = stat_of(k_base, D4, IS_CENTRED != 0u);
  }
  if (V_NORM != 0u) { v_inv = stat_of(v_base, V4, false).y; }
  let here = step.pos * N_HEAD_KV + head_kv;
  let writes = head % group == 0u;
  var score = 0.0;
  // Rounded as the cache rounds, so that a token means the same now and later.
  var fours: array<vec4<f32>, C_FOURS>;
  for (var d = 0u; d < D4; d += C_FOURS) {
    for (var i = 0u; i < C_FOURS; i++) { fours[i] = turned4(k_base, d + i, k_stat, true); }
    var block = C_encode(&fours);
    for (var i = 0u; i < C_FOURS; i++) {
      q_now[d + i] = turned4(q_base, d + i, q_stat, false);
      score += dot(q_now[d + i], C_decode(&block, i));
    }
    let at = (here * D4 + d) / C_FOURS * C_WORDS;
    for (var w = 0u; writes && w < C_WORDS; w++) { k_cache[at + w] = block[w]; }
  }
  for (var d = 0u; d < V4; d += C_FOURS) {
    for (var i = 0u; i < C_FOURS; i++) { fours[i] = raw4(v_base, d + i) * v_inv; }
    var block = C_encode(&fours);
    for (var i = 0u; i < C_FOURS; i++) { acc[d + i] = C_decode(&block, i); }
    let at = (here * V4 + d) / C_FOURS * C_WORDS;
    for (var w = 0u; writes && w < C_WORDS; w++) { v_cache[at + w] = block[w]; }
  }
  top = capped(score);
  total = 1.0;
  if (step.pos > 0u) {
    var first = 0u;
    if (WINDOW != 0u && step.pos + 1u > WINDOW) { first = step.pos + 1u - WINDOW; }
    let last = step.pos - 1u;
    for (var j = first; j <= last; j += 8u) { attend8(j, head_kv, last, first, last); }
  }
  total += sink_weight(head, top);
  for (var d = 0u; d < V4; d++) { y[head * V4 + d] = acc[d] / total; }
}
