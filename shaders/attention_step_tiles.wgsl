// attention_step (tiles family): norm, rotate, store and attend one token; see ops/attention.py
// shapes: qkv [(N_HEAD + 2 N_HEAD_KV) * HEAD_DIM]; y [N_HEAD * HEAD_DIM]; caches [n_ctx, ..]
// grid: one workgroup per q head; the first head of a kv group writes the cache
// limits: one token; HEAD_DIM % 4 == 0 and HEAD_DIM / 4 <= WG_SIZE; const D4 = HEAD_DIM / 4
//! const D4: u32 = 16u
// import lib/step.wgsl
// import lib/activation.wgsl
// import kv as C
// import lib/lanes_tiles.wgsl as L
// import lib/turned.wgsl
override WG_SIZE: u32 = 128u;
override WINDOW: u32 = 0u;
override SCALE: f32 = 1.0;
override SOFTCAP: f32 = 0.0;
@group(0) @binding(0) var<storage, read> qkv: array<f32>;
@group(0) @binding(1) var<storage, read> table: array<vec2<f32>>;
@group(0) @binding(2) var<storage, read> q_norm: array<f32>;
@group(0) @binding(3) var<storage, read> k_norm: array<f32>;
@group(0) @binding(4) var<storage, read_write> k_cache: array<C_elem>;
@group(0) @binding(5) var<storage, read_write> v_cache: array<C_elem>;
@group(0) @binding(6) var<storage, read_write> y: array<vec4<f32>>;
@group(0) @binding(7) var<uniform> step: Step;
var<workgroup> q_now: array<vec4<f32>, D4>;
var<workgroup> weights: array<f32, WG_SIZE>;

fn L_max(v: f32, li: u32) -> f32 {
  workgroupBarrier();
  L_shared[li] = vec4<f32>(v);
  workgroupBarrier();
  for (var o = WG_SIZE / 2u; o > 0u; o /= 2u) {
    if (li < o) { L_shared[li] = max(L_shared[li], L_shared[li + o]); }
    workgroupBarrier();
  }
  return L_shared[0].x;
}

fn capped(dot_product: f32) -> f32 {
  let s = dot_product * SCALE;
  if (SOFTCAP == 0.0) { return s; }
  return SOFTCAP * tanh_safe(s / SOFTCAP);
}

@compute @workgroup_size(WG_SIZE)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let head = wg.x;
  let group = N_HEAD / N_HEAD_KV;
  let head_kv = head / group;
  let row = N_HEAD_KV * D4;
  let q_base = head * D4 * 4u;
  let k_base = (N_HEAD + head_kv) * D4 * 4u;
  let v_base = (N_HEAD + N_HEAD_KV + head_kv) * D4 * 4u;
  var squares = vec4<f32>(0.0);
  if (li < D4) {
    let q = raw4(q_base, li);
    let k = raw4(k_base, li);
    squares = vec4<f32>(dot(q, q), dot(k, k), 0.0, 0.0);
  }
  let inv = 1.0 / sqrt(L_sum4(squares, li) / f32(D4 * 4u) + EPS);
  var part = 0.0;
  var acc = vec4<f32>(0.0);
  if (li < D4) {
    let q = turned4(q_base, li, inv.x, false);
    // Rounded as the cache rounds, so that a token means the same now and later.
    let k = C_encode(turned4(k_base, li, inv.y, true));
    let v = C_encode(raw4(v_base, li));
    q_now[li] = q;
    part = dot(q, C_decode(k));
    acc = C_decode(v);
    if (head % group == 0u) {
      let here = step.pos * row + head_kv * D4 + li;
      k_cache[here] = k;
      v_cache[here] = v;
    }
  }
  var top = capped(L_sum4(vec4<f32>(part), li).x);
  var total = 1.0;
  var first = 0u;
  if (WINDOW != 0u && step.pos + 1u > WINDOW) { first = step.pos + 1u - WINDOW; }
  // Threads split the values: n_split shares of the keys for each of D4 columns.
  let n_split = WG_SIZE / D4;
  let share = li / D4;
  let column = head_kv * D4 + li % D4;
  for (var j0 = first; j0 < step.pos; j0 += WG_SIZE) {
    var s = -3.0e38;
    if (j0 + li < step.pos) {
      let at = (j0 + li) * row + head_kv * D4;
      var sum = 0.0;
      for (var d = 0u; d < D4; d++) { sum += dot(q_now[d], C_decode(k_cache[at + d])); }
      s = capped(sum);
    }
    let new_top = max(top, L_max(s, li));
    let p = select(0.0, exp(max(s - new_top, -80.0)), s > -1.0e38);
    weights[li] = p;
    let shrink = exp(max(top - new_top, -80.0));
    total = total * shrink + L_sum4(vec4<f32>(p), li).x;
    top = new_top;
    acc *= shrink;
    if (share < n_split) {
      let count = min(WG_SIZE, step.pos - j0);
      for (var j = share; j < count; j += n_split) {
        acc += weights[j] * C_decode(v_cache[(j0 + j) * row + column]);
      }
    }
  }
  workgroupBarrier();
  L_shared[li] = acc;
  workgroupBarrier();
  if (li < D4) {
    var sum = vec4<f32>(0.0);
    for (var g = 0u; g < n_split; g++) { sum += L_shared[g * D4 + li]; }
    y[head * D4 + li] = sum / total;
  }
}
