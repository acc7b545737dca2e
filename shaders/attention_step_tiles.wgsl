// attention_step (tiles family): norm, rotate, store and attend one token; see ops/attention.py
// shapes: qkv: N_HEAD + N_HEAD_KV heads of 4 D4, then N_HEAD_KV of 4 V4; caches [n_ctx, ..]; y or parts
// grid: x = N_HEAD / GROUP heads that share a kv head, y = split of the keys (see splits)
// limits: D4, V4 <= 128, GROUP * D4 <= 256 and GROUP <= 4: 15.2 KiB of workgroup memory
//! const D4: u32 = 16u
//! const V4: u32 = 16u
//! const GROUP: u32 = 1u
// import lib/step.wgsl
// import lib/splits.wgsl
// import lib/activation.wgsl
// import kv as C
// import lib/temper.wgsl
// import lib/turned.wgsl
// import lib/attend_group.wgsl
// import scores as S
// import lib/sink.wgsl
@group(0) @binding(0) var<storage, read> qkv: array<f32>;
@group(0) @binding(1) var<storage, read> table: array<vec2<f32>>;
@group(0) @binding(2) var<storage, read> q_norm: array<f32>;
@group(0) @binding(3) var<storage, read> k_norm: array<f32>;
@group(0) @binding(4) var<storage, read> sinks: array<f32>;
@group(0) @binding(5) var<storage, read_write> k_cache: array<C_word>;
@group(0) @binding(6) var<storage, read_write> v_cache: array<C_word>;
@group(0) @binding(7) var<storage, read_write> y: array<vec4<f32>>;
@group(0) @binding(8) var<uniform> step: Step;
var<workgroup> k_now: array<vec4<f32>, D4>;
var<workgroup> stats: array<vec2<f32>, GROUP + 2u>;  // of what is normed: mean or 0, inverse deviation
var<workgroup> last_top: array<f32, GROUP>;
override V_NORM: u32 = 0u;  // 1: each head of v is normed, without a weight

fn v_start(head_kv: u32) -> u32 { return ((N_HEAD + N_HEAD_KV) * D4 + head_kv * V4) * 4u; }

// Where what a norm is over starts, and its fours: the queries' in turn, the key's, the value's.
fn normed_part(head: u32, head_kv: u32, i: u32) -> vec2<u32> {
  if (i > GROUP) { return vec2<u32>(v_start(head_kv), V4); }
  let is_key = i == GROUP;
  if (ROW_NORM != 0u) {
    return vec2<u32>(select(0u, N_HEAD * D4 * 4u, is_key), select(N_HEAD, N_HEAD_KV, is_key) * D4);
  }
  return vec2<u32>(select(head + i, N_HEAD + head_kv, is_key) * D4 * 4u, D4);
}

fn mean_of(i: u32) -> f32 {
  if (IS_CENTRED == 0u || i >= GROUP + 1u) { return 0.0; }  // v is not centred
  return stats[i].x;
}

// Sixteen threads a norm: sums of values (`power` 1), or of squares about the mean.
fn sum_parts(head: u32, head_kv: u32, li: u32, power: u32) {
  if (li / 16u <= GROUP + 1u) {
    let part = normed_part(head, head_kv, li / 16u);
    var sum = 0.0;
    for (var d = li % 16u; d < part.y; d += 16u) {
      let v = raw4(part.x, d);
      if (power == 1u) { sum += dot(v, vec4<f32>(1.0)); continue; }
      let centred = v - mean_of(li / 16u);
      sum += dot(centred, centred);
    }
    tops[li] = sum;
  }
  workgroupBarrier();
}

fn find_norms(head: u32, head_kv: u32, li: u32) {
  let n = f32(normed_part(head, head_kv, min(li, GROUP + 1u)).y * 4u);
  if (IS_CENTRED != 0u) {
    sum_parts(head, head_kv, li, 1u);
    if (li <= GROUP) { stats[li].x = sum16(li) / n; }
    workgroupBarrier();
  }
  sum_parts(head, head_kv, li, 2u);
  if (li <= GROUP + 1u) { stats[li] = vec2<f32>(mean_of(li), 1.0 / sqrt(sum16(li) / n + EPS)); }
  workgroupBarrier();
}

// The token itself, whose key and value are not in the cache before this dispatch.
fn attend_itself(head: u32, head_kv: u32, k_base: u32, li: u32) {
  let at = step.pos * N_HEAD_KV + head_kv;
  // A thread has a four, and rounds the whole block that it lies in.
  let inner = li % C_FOURS;
  let start = li - inner;
  let writes = head % (N_HEAD / N_HEAD_KV) == 0u && inner == 0u;
  var fours: array<vec4<f32>, C_FOURS>;
  // Rounded as the cache rounds, so that a token means the same now and later.
  if (li < D4) {
    for (var i = 0u; i < C_FOURS; i++) { fours[i] = turned4(k_base, start + i, stats[GROUP], true); }
    var block = C_encode(&fours);
    k_now[li] = C_decode(&block, inner);
    let first = (at * D4 + li) / C_FOURS * C_WORDS;
    for (var w = 0u; writes && w < C_WORDS; w++) { k_cache[first + w] = block[w]; }
  }
  if (li < V4) {
    let scale = select(1.0, stats[GROUP + 1u].y, V_NORM != 0u);
    for (var i = 0u; i < C_FOURS; i++) { fours[i] = raw4(v_start(head_kv), start + i) * scale; }
    var block = C_encode(&fours);
    for (var g = 0u; g < GROUP; g++) { acc[g] = C_decode(&block, inner); }
    let first = (at * V4 + li) / C_FOURS * C_WORDS;
    for (var w = 0u; writes && w < C_WORDS; w++) { v_cache[first + w] = block[w]; }
  }
  workgroupBarrier();
  let g = min(li / 16u, GROUP - 1u);
  var s = 0.0;
  for (var d = li % 16u; d < D4; d += 16u) { s += dot(q_now[g * D4 + d], k_now[d]); }
  if (li < GROUP * 16u) { tops[li] = s; }
  workgroupBarrier();
  top = capped(sum16(g));
  total = select(0.0, 1.0, li % 16u == 0u);
  workgroupBarrier();
}

fn put(head: u32, g: u32, d: u32, split: u32) {
  var sum = vec4<f32>(0.0);
  for (var i = 0u; i < 128u / V4; i++) { sum += parts[g * 136u + i * V4 + d]; }
  if (N_SPLIT == 1u) {
    y[(head + g) * V4 + d] = sum / (sum16(g) + sink_weight(head + g, last_top[g]));
    return;
  }
  let at = (split * N_HEAD + head + g) * (V4 + 1u);
  y[at + d] = sum;
  if (d == 0u) { y[at + V4] = vec4<f32>(last_top[g], sum16(g), 0.0, 0.0); }
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  if (wg.y >= n_active()) { return; }
  let head = wg.x * GROUP;
  let head_kv = head / (N_HEAD / N_HEAD_KV);
  let k_base = (N_HEAD + head_kv) * D4 * 4u;
  let begin = first_key() + wg.y * split_keys();
  let end = min(begin + split_keys(), step.pos);
  if (HAS_NORM != 0u || V_NORM != 0u) { find_norms(head, head_kv, li); }
  for (var i = li; i < GROUP * D4; i += 128u) {
    q_now[i] = turned4((head + i / D4) * D4 * 4u, i % D4, stats[i / D4], false);
  }
  top = -3.0e38;
  total = 0.0;
  workgroupBarrier();
  if (wg.y + 1u == n_active()) { attend_itself(head, head_kv, k_base, li); }
  for (var j0 = begin; j0 < end; j0 += 64u) { attend_tile(j0, end, head_kv, li); }
  // Nobody reads parts or tops any more but for this.
  if (li / V4 < 128u / V4) {
    for (var g = 0u; g < GROUP; g++) { parts[g * 136u + li] = acc[g]; }
  }
  if (li < GROUP * 16u) { tops[li] = total; }
  if (li < GROUP * 16u && li % 16u == 0u) { last_top[li / 16u] = top; }
  workgroupBarrier();
  for (var i = li; i < GROUP * V4; i += 128u) { put(head, i / V4, i % V4, wg.y); }
}
