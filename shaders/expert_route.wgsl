// expert_route: the N_USED best experts of a token by score + bias, and each one's share
// shapes: logits [n, N_EXPERT]; bias [N_EXPERT]; experts, shares [n, N_USED]
// grid: one workgroup per token
// limits: an expert's place is how many beat it, so the order is total, with NaN in it too
// import lib/step.wgsl
override WG_SIZE: u32 = 64u;
override N_EXPERT: u32 = 1u;
override N_USED: u32 = 1u;
override GATING: u32 = 0u;  // 0 softmax, 1 sigmoid, 2 softmax of the chosen
override NORMALIZE: u32 = 0u;
override SCALE: f32 = 1.0;
override HAS_BIAS: u32 = 0u;
override USE_N_OUT: u32 = 0u;
@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read> bias: array<f32>;
@group(0) @binding(2) var<storage, read_write> experts: array<u32>;
@group(0) @binding(3) var<storage, read_write> shares: array<f32>;
@group(0) @binding(4) var<uniform> step: Step;
var<workgroup> score: array<f32, N_EXPERT>;
var<workgroup> order: array<u32, N_EXPERT>;
var<workgroup> chosen: array<f32, N_USED>;

// Whole numbers in the order of the values.
fn rank_key(v: f32) -> u32 {
  let bits = bitcast<u32>(select(v, 0.0, v == 0.0));
  return select(bits | 0x80000000u, ~bits, (bits >> 31u) != 0u);
}

fn small_exp(v: f32) -> f32 { return exp(max(v, -80.0)); }

@compute @workgroup_size(WG_SIZE)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  if (wg.x >= select(step.n_tokens, step.n_out, USE_N_OUT != 0u)) { return; }
  let base = wg.x * N_EXPERT;
  var best = -3.0e38;
  if (GATING == 0u) {
    for (var e = 0u; e < N_EXPERT; e++) { best = max(best, logits[base + e]); }
  }
  for (var e = li; e < N_EXPERT; e += WG_SIZE) {
    var v = logits[base + e];
    if (GATING == 0u) { v = small_exp(v - best); }
    if (GATING == 1u) { v = 1.0 / (1.0 + exp(clamp(-v, -80.0, 80.0))); }
    score[e] = v;
  }
  workgroupBarrier();
  var total = 1.0;
  if (GATING == 0u) {
    total = 0.0;
    for (var e = 0u; e < N_EXPERT; e++) { total += score[e]; }
  }
  for (var e = li; e < N_EXPERT; e += WG_SIZE) {
    var v = score[e] / total;
    if (HAS_BIAS != 0u) { v += bias[e]; }
    order[e] = rank_key(v);
  }
  workgroupBarrier();
  for (var e = li; e < N_EXPERT; e += WG_SIZE) {
    let own = order[e];
    var place = 0u;
    for (var k = 0u; k < N_EXPERT; k++) {
      place += u32(order[k] > own || (order[k] == own && k < e));
    }
    if (place < N_USED) {
      experts[wg.x * N_USED + place] = e;
      chosen[place] = score[e] / total;
    }
  }
  workgroupBarrier();
  var top = -3.0e38;
  for (var j = 0u; j < N_USED; j++) { top = max(top, chosen[j]); }
  var sum = 0.0;
  for (var j = 0u; j < N_USED; j++) {
    sum += select(chosen[j], small_exp(chosen[j] - top), GATING == 2u);
  }
  for (var j = li; j < N_USED; j += WG_SIZE) {
    var v = chosen[j];
    if (GATING == 2u) { v = small_exp(v - top) / sum; }
    else if (NORMALIZE != 0u) { v /= max(sum, 6.103515625e-5); }
    shares[wg.x * N_USED + j] = v * SCALE;
  }
}
