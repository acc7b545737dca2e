// layer_norm: y[r, :] = (x[r, :] - mean) / sqrt(variance + EPS) * weight + bias
// shapes: x, y [n * N_GROUP, N_COLS]; weight [N_WEIGHT, N_COLS], bias [N_BIAS, N_COLS]; 0: none
// grid: one row per unit (see lanes), folded over x and y
// limits: N_COLS % 4 == 0
// import lib/step.wgsl
// import lanes as L
override WG_SIZE: u32 = 64u;
override N_COLS: u32 = 4u;
override EPS: f32 = 1e-6;
override USE_N_OUT: u32 = 0u;
override N_GROUP: u32 = 1u;   // groups of a row, each normalised
override N_WEIGHT: u32 = 1u;  // 1 for all groups, or N_GROUP
override N_BIAS: u32 = 1u;
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> weight: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> bias: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> y: array<vec4<f32>>;
@group(0) @binding(4) var<uniform> step: Step;

@compute @workgroup_size(WG_SIZE)
fn main(
  @builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>,
  @builtin(local_invocation_index) li: u32
) {
  let group = wg.x + wg.y * grid.x;
  let n = select(step.n_tokens, step.n_out, USE_N_OUT != 0u) * N_GROUP;
  if (L_unit(group, 0u) >= n) { return; }
  let row = L_unit(group, li);
  let base = row * (N_COLS / 4u);
  let n4 = select(0u, N_COLS / 4u, row < n);
  var total = 0.0;
  for (var c = L_first(li); c < n4; c += L_stride()) { total += dot(x[base + c], vec4<f32>(1.0)); }
  let mean = L_sum_all(total, li) / f32(N_COLS);
  // In a second pass: the mean square less the mean's square would lose digits.
  var squares = 0.0;
  for (var c = L_first(li); c < n4; c += L_stride()) {
    let v = x[base + c] - mean;
    squares += dot(v, v);
  }
  let inv = 1.0 / sqrt(L_sum_all(squares, li) / f32(N_COLS) + EPS);
  let w_base = row % max(N_WEIGHT, 1u) * (N_COLS / 4u);
  let b_base = row % max(N_BIAS, 1u) * (N_COLS / 4u);
  for (var c = L_first(li); c < n4; c += L_stride()) {
    var v = (x[base + c] - mean) * inv;
    if (N_WEIGHT != 0u) { v *= weight[w_base + c]; }
    if (N_BIAS != 0u) { v += bias[b_base + c]; }
    y[base + c] = v;
  }
}
