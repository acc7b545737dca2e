// rms_norm, layer_norm (rows of any length): y[r, :] = (x - mean if IS_CENTRED) * inv * weight + bias
// shapes: x, y [n * N_GROUP, N_COLS]; weight [N_WEIGHT, N_COLS], bias [N_BIAS, N_COLS]; 0: none
// grid: one thread per row, folded over x and y
// limits: for rows that are not whole fours, which only small models have: nothing is shared
// import lib/step.wgsl
override WG_SIZE: u32 = 8u;
override N_COLS: u32 = 1u;
override EPS: f32 = 1e-6;
override USE_N_OUT: u32 = 0u;
override N_GROUP: u32 = 1u;
override N_WEIGHT: u32 = 1u;
override N_BIAS: u32 = 0u;
override IS_CENTRED: u32 = 0u;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> weight: array<f32>;
@group(0) @binding(2) var<storage, read> bias: array<f32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;
@group(0) @binding(4) var<uniform> step: Step;

@compute @workgroup_size(WG_SIZE)
fn main(
  @builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>,
  @builtin(local_invocation_index) li: u32
) {
  let row = (wg.x + wg.y * grid.x) * WG_SIZE + li;
  if (row >= select(step.n_tokens, step.n_out, USE_N_OUT != 0u) * N_GROUP) { return; }
  let base = row * N_COLS;
  var mean = 0.0;
  if (IS_CENTRED != 0u) {
    for (var c = 0u; c < N_COLS; c++) { mean += x[base + c]; }
    mean /= f32(N_COLS);
  }
  var squares = 0.0;
  for (var c = 0u; c < N_COLS; c++) { squares += (x[base + c] - mean) * (x[base + c] - mean); }
  let inv = 1.0 / sqrt(squares / f32(N_COLS) + EPS);
  let w_base = row % max(N_WEIGHT, 1u) * N_COLS;
  let b_base = row % max(N_BIAS, 1u) * N_COLS;
  for (var c = 0u; c < N_COLS; c++) {
    var v = (x[base + c] - mean) * inv;
    if (N_WEIGHT != 0u) { v *= weight[w_base + c]; }
    if (N_BIAS != 0u) { v += bias[b_base + c]; }
    y[base + c] = v;
  }
}
