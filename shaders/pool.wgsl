// pool: y[r, :] = the mean of x[0 .. rows[r], :], or x[0, :] with IS_CLS
// shapes: x [n_tokens, N_COLS]; rows [n_out]; y [n_out, N_COLS]
// grid: one thread per value, folded over x and y
// limits: none
// import lib/step.wgsl
override WG_SIZE: u32 = 64u;
override N_COLS: u32 = 1u;
override IS_CLS: u32 = 0u;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> rows: array<u32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<uniform> step: Step;

@compute @workgroup_size(WG_SIZE)
fn main(
  @builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>,
  @builtin(local_invocation_index) li: u32
) {
  let i = (wg.x + wg.y * grid.x) * WG_SIZE + li;
  if (i >= step.n_out * N_COLS) { return; }
  let n = select(rows[i / N_COLS] + 1u, 1u, IS_CLS != 0u);
  var total = 0.0;
  for (var t = 0u; t < n; t++) { total += x[t * N_COLS + i % N_COLS]; }
  y[i] = total / f32(n);
}
