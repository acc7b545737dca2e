// attention (prefill, tiles family): softmax(cap(SCALE q k^T)) v, causal, sliding WINDOW if not 0
// shapes: q, y [n_tokens, N_HEAD * HEAD_DIM]; caches [n_ctx, N_HEAD_KV * HEAD_DIM]
// grid: a workgroup of 64 for 8 tokens of a head, 64 keys at a time; x = tokens / 8, y = head
// limits: HEAD_DIM % 4 == 0 and <= 384; const D4 = HEAD_DIM / 4, N_ACC = ceil(D4 / 8)
//! const D4: u32 = 16u
//! const N_ACC: u32 = 2u
// import lib/step.wgsl
// import lib/activation.wgsl
// import kv as C
override N_HEAD: u32 = 1u;
override N_HEAD_KV: u32 = 1u;
override WINDOW: u32 = 0u;
override SCALE: f32 = 1.0;
override SOFTCAP: f32 = 0.0;
@group(0) @binding(0) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> k_cache: array<C_elem>;
@group(0) @binding(2) var<storage, read> v_cache: array<C_elem>;
@group(0) @binding(3) var<storage, read_write> y: array<vec4<f32>>;
@group(0) @binding(4) var<uniform> step: Step;
const N_QUERY = 8u;
var<workgroup> q_tile: array<vec4<f32>, N_QUERY * D4>;
var<workgroup> scores: array<f32, 512>;  // [query, key], then the softmax weights
var<workgroup> parts: array<f32, 64>;    // [query, eighth of the keys]
var<workgroup> shrinks: array<f32, N_QUERY>;
var<workgroup> totals: array<f32, N_QUERY>;

fn score_at(dot_product: f32, seen: bool) -> f32 {
  if (!seen) { return -3.0e38; }
  let s = dot_product * SCALE;
  if (SOFTCAP == 0.0) { return s; }
  return SOFTCAP * tanh_safe(s / SOFTCAP);
}

// One key against the eight queries.
fn score_key(j: u32, at: u32, t0: u32, end: u32, li: u32) {
  var s: array<f32, N_QUERY>;
  for (var d = 0u; d < D4; d++) {
    let k = C_decode(k_cache[at + d]);
    for (var i = 0u; i < N_QUERY; i++) { s[i] += dot(q_tile[i * D4 + d], k); }
  }
  for (var i = 0u; i < N_QUERY; i++) {
    let last = step.pos + t0 + i;
    let in_window = WINDOW == 0u || j + WINDOW > last;
    scores[i * 64u + li] = score_at(s[i], j <= last && j <= end && in_window);
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
  let row = N_HEAD_KV * D4;
  let kv = (head / (N_HEAD / N_HEAD_KV)) * D4;
  let end = step.pos + min(t0 + N_QUERY, step.n_tokens) - 1u;
  var low = 0u;
  if (WINDOW != 0u && step.pos + t0 + 1u > WINDOW) { low = step.pos + t0 + 1u - WINDOW; }
  let query = li / 8u;
  let share = (li % 8u) * 8u + query * 64u;
  var top = -3.0e38;
  var total = 0.0;
  var acc: array<vec4<f32>, N_ACC>;
  for (var j0 = low; j0 <= end; j0 += 64u) {
    workgroupBarrier();
    score_key(j0 + li, kv + min(j0 + li, end) * row, t0, end, li);
    workgroupBarrier();
    var best = -3.0e38;
    for (var i = 0u; i < 8u; i++) { best = max(best, scores[share + i]); }
    parts[li] = best;
    workgroupBarrier();
    var new_top = top;
    for (var i = 0u; i < 8u; i++) { new_top = max(new_top, parts[query * 8u + i]); }
    workgroupBarrier();
    var sum = 0.0;
    for (var i = 0u; i < 8u; i++) {
      let s = scores[share + i];
      let p = select(0.0, exp(max(s - new_top, -80.0)), s > -1.0e38);
      scores[share + i] = p;
      sum += p;
    }
    parts[li] = sum;
    let shrink = exp(max(top - new_top, -80.0));
    if (li % 8u == 0u) { shrinks[query] = shrink; }
    workgroupBarrier();
    total *= shrink;
    for (var i = 0u; i < 8u; i++) { total += parts[query * 8u + i]; }
    top = new_top;
    let count = min(64u, end + 1u - j0);
    for (var a = 0u; a < N_ACC; a++) {
      let i = li + a * 64u;
      if (i < N_QUERY * D4) {
        var v = acc[a] * shrinks[i / D4];
        let origin = kv + j0 * row + i % D4;
        for (var j = 0u; j < count; j++) {
          v += scores[(i / D4) * 64u + j] * C_decode(v_cache[origin + j * row]);
        }
        acc[a] = v;
      }
    }
  }
  if (li % 8u == 0u) { totals[query] = total; }
  workgroupBarrier();
  for (var a = 0u; a < N_ACC; a++) {
    let i = li + a * 64u;
    let t = t0 + i / D4;
    if (i < N_QUERY * D4 && t < step.n_tokens) {
      y[(t * N_HEAD + head) * D4 + i % D4] = acc[a] / totals[i / D4];
    }
  }
}
