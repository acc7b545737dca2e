// rms_norm (rows of any length): y[r, :] = x[r, :] / sqrt(mean(x[r, :]^2) + EPS) * weight
// shapes: x, y [n * N_GROUP, N_COLS]; weight [N_COLS]; a row of the op is N_GROUP rows here
// grid: one thread per row, folded over x and y
// limits: for rows that are not whole fours, which only small models have: nothing is shared
// import lib/step.wgsl
override WG_SIZE: u32 = 8u;
override N_COLS: u32 = 1u;
override EPS: f32 = 1e-6;
override USE_N_OUT: u32 = 0u;
override N_GROUP: u32 = 1u;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> weight: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<uniform> step: Step;

@compute @workgroup_size(WG_SIZE)
fn main(
  @builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>,
  @builtin(local_invocation_index) li: u32
) {
  let row = (wg.x + wg.y * grid.x) * WG_SIZE + li;
  if (row >= select(step.n_tokens, step.n_out, USE_N_OUT != 0u) * N_GROUP) { return; }
  var squares = 0.0;
  for (var c = 0u; c < N_COLS; c++) { squares += x[row * N_COLS + c] * x[row * N_COLS + c]; }
  let inv = 1.0 / sqrt(squares / f32(N_COLS) + EPS);
  for (var c = 0u; c < N_COLS; c++) { y[row * N_COLS + c] = x[row * N_COLS + c] * inv * weight[c]; }
}
