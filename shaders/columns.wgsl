// columns: y[r, :] = x[r, START ..]
// shapes: x [n * N_PART, X_COLS]; y [n * N_PART, N_COLS]
// grid: one thread per value, folded over x and y
// limits: none
// import lib/step.wgsl
override WG_SIZE: u32 = 64u;
override N_COLS: u32 = 1u;
override N_PART: u32 = 1u;
override USE_N_OUT: u32 = 0u;
override X_COLS: u32 = 1u;
override START: u32 = 0u;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> step: Step;

@compute @workgroup_size(WG_SIZE)
fn main(
  @builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>,
  @builtin(local_invocation_index) li: u32
) {
  let i = (wg.x + wg.y * grid.x) * WG_SIZE + li;
  if (i >= select(step.n_tokens, step.n_out, USE_N_OUT != 0u) * N_PART * N_COLS) { return; }
  y[i] = x[i / N_COLS * X_COLS + START + i % N_COLS];
}
