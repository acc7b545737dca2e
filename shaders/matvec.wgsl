// matvec: y[t, y_start + r] = dot(W[r, :], x[t, :]) + bias[row_start + r] + residual[t, y_start + r]
// shapes: x [n, N_COLS]; W [N_ROWS, N_COLS], a chunk of a tensor; y, residual [n, Y_COLS]
// grid: four rows per unit (see lanes), folded over x and y; z = token
// limits: N_COLS % 4 == 0; n is n_out with USE_N_OUT, else n_tokens
// import lib/step.wgsl
// import lanes as L
// import quant as W
// import lib/dot4.wgsl as W
override WG_SIZE: u32 = 64u;
override N_ROWS: u32 = 1u;
override N_COLS: u32 = 32u;
override Y_COLS: u32 = 1u;
override USE_N_OUT: u32 = 0u;
override HAS_BIAS: u32 = 0u;
override HAS_RESIDUAL: u32 = 0u;
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
  let row = L_unit(wg.x + wg.y * grid.x, li) * 4u;
  let t = wg.z;
  if (row >= N_ROWS || t >= select(step.n_tokens, step.n_out, USE_N_OUT != 0u)) { return; }
  let part = W_dot4(row, N_ROWS, t * (N_COLS / 4u), L_first(li), L_stride());
  let sum = L_sum4(part, li);
  if (!L_is_writer(li)) { return; }
  let base = t * Y_COLS + params.y_start + row;
  for (var r = 0u; r < 4u; r++) {
    if (row + r >= N_ROWS) { return; }
    var v = sum[r];
    if (HAS_BIAS != 0u) { v += bias[params.row_start + row + r]; }
    if (HAS_RESIDUAL != 0u) { v += residual[base + r]; }
    y[base + r] = v;
  }
}
