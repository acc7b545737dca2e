// attention (prefill, tiles family): softmax(cap(SCALE q k^T)) v; IS_CAUSAL: over a WINDOW if not 0
// shapes: q [n_tokens, N_HEAD, 4 D4]; y [.., 4 V4]; caches [n_ctx, N_HEAD_KV, 4 D4] and [.., 4 V4]
// grid: a workgroup of 64 for N_QUERY tokens of a head, N_KEY keys at a time; x = tokens, y = head
// limits: most = max(D4, V4) <= 128; N_TEAM = max(1, min(4, 64 / most)); N_COL = ceil(V4 / 64)
//! const D4: u32 = 16u
//! const V4: u32 = 16u
//! const N_TEAM: u32 = 4u
//! const N_COL: u32 = 1u
//! const N_ACC: u32 = 8u
//! const N_KEY: u32 = 32u
// import lib/step.wgsl
// import lib/activation.wgsl
// import kv as C
// import lib/sink.wgsl
override N_HEAD: u32 = 1u;
override N_HEAD_KV: u32 = 1u;
override WINDOW: u32 = 0u;
override IS_CAUSAL: u32 = 1u;
override SCALE: f32 = 1.0;
override SOFTCAP: f32 = 0.0;
@group(0) @binding(0) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> k_cache: array<C_word>;
@group(0) @binding(2) var<storage, read> v_cache: array<C_word>;
@group(0) @binding(3) var<storage, read> sinks: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<vec4<f32>>;
@group(0) @binding(5) var<uniform> step: Step;
// A thread sums N_ACC queries in N_COL columns; N_TEAM teams of threads share the columns.
const N_QUERY = N_TEAM * N_ACC;
const N_EACH = N_QUERY * N_KEY / 64u;  // queries that a thread scores a key against
const N_PART = 64u / N_QUERY;     // threads of a query in the softmax
const N_SHARE = N_KEY / N_PART;   // keys of each
var<workgroup> q_tile: array<vec4<f32>, N_QUERY * D4>;
var<workgroup> scores: array<f32, N_QUERY * (N_KEY + 1u)>;  // [query, key + 1], then the softmax weights
var<workgroup> parts: array<f32, 64>;              // [query, part of the keys]
var<workgroup> shrinks: array<f32, N_QUERY>;
var<private> acc: array<vec4<f32>, N_ACC * N_COL>;

fn score_at(dot_product: f32) -> f32 {
  let s = dot_product * SCALE;
  if (SOFTCAP == 0.0) { return s; }
  return SOFTCAP * tanh_safe(s / SOFTCAP);
}

// One key against N_EACH of the queries, from first on.
fn score_key(j: u32, at: u32, t0: u32, end: u32, key: u32, first: u32) {
  var s: array<f32, N_EACH>;
  for (var d = 0u; d < D4; d++) {
    let k = C_key(at + d);
    for (var i = 0u; i < N_EACH; i++) { s[i] += dot(q_tile[(first + i) * D4 + d], k); }
  }
  for (var i = 0u; i < N_EACH; i++) {
    let last = select(end, step.pos + t0 + first + i, IS_CAUSAL != 0u);
    let seen = j <= last && j <= end && (WINDOW == 0u || j + WINDOW > last);
    scores[(first + i) * (N_KEY + 1u) + key] = select(-3.0e38, score_at(s[i]), seen);
  }
}

// The values of a tile; each is read once for N_ACC queries.
fn add_values(team: u32, column: u32, at: u32, n_keys: u32) {
  for (var c = 0u; c < N_COL; c++) {
    if (column + c * 64u >= V4) { return; }
    for (var i = 0u; i < N_ACC; i++) { acc[c * N_ACC + i] *= shrinks[team * N_ACC + i]; }
    for (var j = 0u; j < n_keys; j++) {
      let v = C_value(at + c * 64u + j * (N_HEAD_KV * V4));
      for (var i = 0u; i < N_ACC; i++) {
        acc[c * N_ACC + i] += scores[(team * N_ACC + i) * (N_KEY + 1u) + j] * v;
      }
    }
  }
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let t0 = wg.x * N_QUERY;
  if (t0 >= step.n_tokens) { return; }
  let head = wg.y;
  for (var i = li; i < N_QUERY * D4; i += 64u) {
    let t = min(t0 + i / D4, step.n_tokens - 1u);
    q_tile[i] = q[(t * N_HEAD + head) * D4 + i % D4];
  }
  let head_kv = head / (N_HEAD / N_HEAD_KV);
  let newest = step.pos + step.n_tokens - 1u;
  let end = select(newest, min(step.pos + t0 + N_QUERY - 1u, newest), IS_CAUSAL != 0u);
  var low = 0u;
  if (WINDOW != 0u && step.pos + t0 + 1u > WINDOW) { low = step.pos + t0 + 1u - WINDOW; }
  let query = li / N_PART;
  let share = query * (N_KEY + 1u) + (li % N_PART) * N_SHARE;
  let team = li / min(V4, 64u);
  let column = li % min(V4, 64u);
  var top = -3.0e38;
  var total = 0.0;  // of this thread's share of the keys
  workgroupBarrier();
  for (var j0 = low; j0 <= end; j0 += N_KEY) {
    let key = li % N_KEY;
    let at = (min(j0 + key, end) * N_HEAD_KV + head_kv) * D4;
    score_key(j0 + key, at, t0, end, key, (li / N_KEY) * N_EACH);
    workgroupBarrier();
    var best = -3.0e38;
    for (var i = 0u; i < N_SHARE; i++) { best = max(best, scores[share + i]); }
    parts[li] = best;
    workgroupBarrier();
    var new_top = top;
    for (var i = 0u; i < N_PART; i++) { new_top = max(new_top, parts[query * N_PART + i]); }
    let shrink = exp(max(top - new_top, -80.0));
    total *= shrink;
    for (var i = 0u; i < N_SHARE; i++) {
      let s = scores[share + i];
      let p = select(0.0, exp(max(s - new_top, -80.0)), s > -1.0e38);
      scores[share + i] = p;
      total += p;
    }
    if (li % N_PART == 0u) { shrinks[query] = shrink; }
    top = new_top;
    workgroupBarrier();
    if (team < N_TEAM) {
      add_values(team, column, (j0 * N_HEAD_KV + head_kv) * V4 + column, min(N_KEY, end + 1u - j0));
    }
    workgroupBarrier();
  }
  parts[li] = total + select(0.0, sink_weight(head, top), li % N_PART == 0u);
  workgroupBarrier();
  if (team >= N_TEAM) { return; }
  for (var i = 0u; i < N_ACC; i++) {
    let t = t0 + team * N_ACC + i;
    if (t >= step.n_tokens) { return; }
    var sum = 0.0;
    for (var k = 0u; k < N_PART; k++) { sum += parts[(team * N_ACC + i) * N_PART + k]; }
    for (var c = 0u; c < N_COL && column + c * 64u < V4; c++) {
      y[(t * N_HEAD + head) * V4 + column + c * 64u] = acc[c * N_ACC + i] / sum;
    }
  }
}
