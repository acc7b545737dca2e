// attention (prefill, rows family): softmax(cap(SCALE q k^T)) v; IS_CAUSAL: over a WINDOW if not 0
// shapes: q [n_tokens, N_HEAD, 4 D4]; y [.., 4 V4]; caches [n_ctx, N_HEAD_KV, 4 D4] and [.., 4 V4]
// grid: one thread per token and head; x = tokens / WG_SIZE, y = head; no barriers
// limits: heads of whole fours: D4 of a key, V4 of a value
//! const D4: u32 = 16u
//! const V4: u32 = 16u
// import lib/step.wgsl
// import lib/activation.wgsl
// import kv as C
// import lib/attend8.wgsl
// import lib/sink.wgsl
override WG_SIZE: u32 = 16u;
override N_HEAD: u32 = 1u;
override N_HEAD_KV: u32 = 1u;
override WINDOW: u32 = 0u;
override IS_CAUSAL: u32 = 1u;
@group(0) @binding(0) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> k_cache: array<C_word>;
@group(0) @binding(2) var<storage, read> v_cache: array<C_word>;
@group(0) @binding(3) var<storage, read> sinks: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<vec4<f32>>;
@group(0) @binding(5) var<uniform> step: Step;

@compute @workgroup_size(WG_SIZE)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let t0 = wg.x * WG_SIZE;
  let t = t0 + li;
  if (t >= step.n_tokens) { return; }
  let head = wg.y;
  let base = (t * N_HEAD + head) * D4;
  for (var d = 0u; d < D4; d++) { q_now[d] = q[base + d]; }
  for (var d = 0u; d < V4; d++) { acc[d] = vec4<f32>(0.0); }
  top = -3.0e38;
  total = 0.0;
  let newest = step.pos + step.n_tokens - 1u;
  let last = select(newest, step.pos + t, IS_CAUSAL != 0u);
  var first = 0u;
  // The whole workgroup walks the same keys, so that a key is loaded once for all its tokens.
  var low = 0u;
  if (WINDOW != 0u) {
    if (last + 1u > WINDOW) { first = last + 1u - WINDOW; }
    if (step.pos + t0 + 1u > WINDOW) { low = step.pos + t0 + 1u - WINDOW; }
  }
  let end = select(newest, min(step.pos + t0 + WG_SIZE - 1u, newest), IS_CAUSAL != 0u);
  let head_kv = head / (N_HEAD / N_HEAD_KV);
  for (var j = low; j <= end; j += 8u) { attend8(j, head_kv, end, first, last); }
  total += sink_weight(head, top);
  for (var d = 0u; d < V4; d++) { y[(t * N_HEAD + head) * V4 + d] = acc[d] / total; }
}
