// sigmoid_gate: y[t, :] = a[t, :] * sigmoid(dot(x[t, :], weight))
// shapes: a, y [n, N_A]; x [n, N_COLS]; weight [N_COLS]
// grid: one row per unit (see lanes), folded over x and y
// limits: none
// import lib/step.wgsl
// import lanes as L
override WG_SIZE: u32 = 64u;
override N_COLS: u32 = 1u;
override N_A: u32 = 1u;
override USE_N_OUT: u32 = 0u;
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;
@group(0) @binding(4) var<uniform> step: Step;

@compute @workgroup_size(WG_SIZE)
fn main(
  @builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>,
  @builtin(local_invocation_index) li: u32
) {
  let group = wg.x + wg.y * grid.x;
  let n = select(step.n_tokens, step.n_out, USE_N_OUT != 0u);
  if (L_unit(group, 0u) >= n) { return; }
  let row = L_unit(group, li);
  let n_cols = select(0u, N_COLS, row < n);
  var part = 0.0;
  for (var c = L_first(li); c < n_cols; c += L_stride()) { part += x[row * N_COLS + c] * weight[c]; }
  let gate = 1.0 / (1.0 + exp(clamp(-L_sum_all(part, li), -80.0, 80.0)));
  let n_a = select(0u, N_A, row < n);
  for (var c = L_first(li); c < n_a; c += L_stride()) { y[row * N_A + c] = a[row * N_A + c] * gate; }
}
