// pad_rows: y[t, c] = x[t, c] for c < N_COLS, zero past it, so that a row of y is whole fours
// shapes: x [n * N_PART, N_COLS]; y [n * N_PART, Y_COLS]
// grid: one thread per value of y, folded over x and y
// limits: none
// import lib/step.wgsl
override WG_SIZE: u32 = 64u;
override N_COLS: u32 = 1u;
override Y_COLS: u32 = 4u;
override N_PART: u32 = 1u;
override USE_N_OUT: u32 = 0u;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> step: Step;

@compute @workgroup_size(WG_SIZE)
fn main(
  @builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>,
  @builtin(local_invocation_index) li: u32
) {
  let i = (wg.x + wg.y * grid.x) * WG_SIZE + li;
  let t = i / Y_COLS;
  let c = i % Y_COLS;
  if (t >= select(step.n_tokens, step.n_out, USE_N_OUT != 0u) * N_PART) { return; }
  y[i] = select(0.0, x[t * N_COLS + min(c, N_COLS - 1u)], c < N_COLS);
}
