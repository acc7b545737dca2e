// short_conv: y[t] = c[t] * sum_j weight[:, j] * u[t - N_KEPT + j], with u = b * v and x = b|c|v
// shapes: x [n_tokens, 3 * N_COLS]; weight [N_COLS, N_KEPT + 1]; y [n_tokens, N_COLS]; state: ring
// grid: one thread per value, folded over x and y
// limits: none
// import lib/step.wgsl
// import lib/ring.wgsl
override WG_SIZE: u32 = 64u;
override N_COLS: u32 = 1u;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> weight: array<f32>;
@group(0) @binding(2) var<storage, read> state: array<f32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;
@group(0) @binding(4) var<uniform> step: Step;

// u of the token that lies `back` before t, from this chunk or from the state.
fn gated(t: u32, back: u32, c: u32) -> f32 {
  if (back <= t) {
    let row = (t - back) * 3u * N_COLS;
    return x[row + c] * x[row + 2u * N_COLS + c];
  }
  if (back > step.pos + t) { return 0.0; }
  return state[state_row(step.pos + t - back) * N_COLS + c];
}

@compute @workgroup_size(WG_SIZE)
fn main(
  @builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>,
  @builtin(local_invocation_index) li: u32
) {
  let i = (wg.x + wg.y * grid.x) * WG_SIZE + li;
  let t = i / N_COLS;
  if (t >= step.n_tokens) { return; }
  let c = i % N_COLS;
  var sum = 0.0;
  for (var j = 0u; j <= N_KEPT; j++) {
    sum += gated(t, N_KEPT - j, c) * weight[c * (N_KEPT + 1u) + j];
  }
  y[i] = sum * x[t * 3u * N_COLS + N_COLS + c];
}
