// attention_join: y = the splits of attention_step_tiles put together by their softmax statistics
// shapes: parts [N_SPLIT, N_HEAD, V4 + 1]: sums, then (top, total); y [N_HEAD * V4]
// grid: one thread per four values
// limits: one token; V4 fours of a value
//! const V4: u32 = 16u
// import lib/step.wgsl
// import lib/splits.wgsl
// import lib/sink.wgsl
override WG_SIZE: u32 = 64u;
override N_HEAD: u32 = 1u;
@group(0) @binding(0) var<storage, read> parts: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> sinks: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4<f32>>;
@group(0) @binding(3) var<uniform> step: Step;

@compute @workgroup_size(WG_SIZE)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = wg.x * WG_SIZE + li;
  if (i >= N_HEAD * V4) { return; }
  let at = (i / V4) * (V4 + 1u);
  let stride = N_HEAD * (V4 + 1u);
  let n = n_active();
  var top = parts[at + V4].x;
  for (var s = 1u; s < n; s++) { top = max(top, parts[at + s * stride + V4].x); }
  var sum = vec4<f32>(0.0);
  var total = 0.0;
  for (var s = 0u; s < n; s++) {
    let stats = parts[at + s * stride + V4];
    let weight = exp(max(stats.x - top, -80.0));
    total += stats.y * weight;
    sum += parts[at + s * stride + i % V4] * weight;
  }
  y[i] = sum / (total + sink_weight(i / V4, top));
}
