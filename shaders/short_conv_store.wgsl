// short_conv (its state): u = b * v of each token that the state keeps, at its position's row
// shapes: x = b|c|v [n_tokens, 3 * N_COLS]; state: see ring
// grid: one thread per value, folded over x and y
// limits: none
// import lib/step.wgsl
// import lib/ring.wgsl
override WG_SIZE: u32 = 64u;
override N_COLS: u32 = 1u;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> state: array<f32>;
@group(0) @binding(2) var<uniform> step: Step;

@compute @workgroup_size(WG_SIZE)
fn main(
  @builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>,
  @builtin(local_invocation_index) li: u32
) {
  let i = (wg.x + wg.y * grid.x) * WG_SIZE + li;
  let t = i / N_COLS;
  if (t >= step.n_tokens) { return; }
  let position = step.pos + t;
  // Two positions of a long chunk must not write one row of the ring.
  if (t + RING < step.n_tokens && !is_kept(position)) { return; }
  let c = i % N_COLS;
  let row = t * 3u * N_COLS;
  state[state_row(position) * N_COLS + c] = x[row + c] * x[row + 2u * N_COLS + c];
}
