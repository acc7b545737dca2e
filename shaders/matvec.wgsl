// matvec: y[t, y_start + r] = act(dot(W[r, :], x[t, :]) + bias[row_start + r]) + residual[t, y_start + r]
// shapes: x [n, N_COLS]; W [N_ROWS, N_COLS], a chunk of a tensor; y, residual [n, Y_COLS]
// grid: four rows per unit (see lanes), folded over x and y; z = token
// limits: N_COLS % 4 == 0; n is n_out with USE_N_OUT, else n_tokens
// import lib/step.wgsl
// import lanes as L
// import quant as W
// import lib/dot4.wgsl as W
// import lib/input_plain.wgsl
// import lib/activation.wgsl
override WG_SIZE: u32 = 64u;
override N_ROWS: u32 = 1u;
override N_COLS: u32 = 32u;
override Y_COLS: u32 = 1u;
override USE_N_OUT: u32 = 0u;
override HAS_BIAS: u32 = 0u;
override HAS_RESIDUAL: u32 = 0u;
override HAS_ACTIVATION: u32 = 0u;
struct Params { row_start: u32, y_start: u32 }
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> W_data: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> bias: array<f32>;
@group(0) @binding(3) var<storage, read> residual: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;
@group(0) @binding(5) var<uniform> params: Params;
@group(0) @binding(6) var<uniform> step: Step;

@compute @workgroup_size(WG_SIZE)
fn main(
  @builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>,
  @builtin(local_invocation_index) li: u32
) {
  let group = wg.x + wg.y * grid.x;
  let t = wg.z;
  if (L_unit(group, 0u) * 4u >= N_ROWS) { return; }
  if (t >= select(step.n_tokens, step.n_out, USE_N_OUT != 0u)) { return; }
  let row = L_unit(group, li) * 4u;
  let n_groups = (N_COLS + 15u) / 16u;
  let at = W_rows(row, N_ROWS);
  x_start = t * (N_COLS / 4u);
  var part = vec4<f32>(0.0);
  for (var g = L_first(li); g < n_groups; g += L_stride()) {
    part += W_dot4(at + g, X_load16(g));
  }
  let sum = L_sum4(part, li);
  let base = t * Y_COLS + params.y_start + row;
  // The first lanes of a unit write a row each.
  for (var r = L_first(li); r < 4u && row + r < N_ROWS; r += L_stride()) {
    var v = sum[r];
    if (HAS_BIAS != 0u) { v += bias[params.row_start + row + r]; }
    if (HAS_ACTIVATION != 0u) { v = activate(v); }
    if (HAS_RESIDUAL != 0u) { v += residual[base + r]; }
    y[base + r] = v;
  }
}
