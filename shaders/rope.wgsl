// rope: the first N_ROT values of each head turned by position, the others copied
// shapes: x, y [n_tokens, N_HEAD * HEAD_DIM]; table [n_ctx, N_ROT / 2] (cos, sin)
// grid: one thread per value, folded over x and y
// limits: N_ROT even; NEOX 1 pairs p with p + N_ROT / 2, 0 pairs neighbours
// import lib/step.wgsl
override WG_SIZE: u32 = 64u;
override N_HEAD: u32 = 1u;
override HEAD_DIM: u32 = 2u;
override N_ROT: u32 = 2u;
override NEOX: u32 = 0u;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> table: array<vec2<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<uniform> step: Step;

@compute @workgroup_size(WG_SIZE)
fn main(
  @builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>,
  @builtin(local_invocation_index) li: u32
) {
  let i = (wg.x + wg.y * grid.x) * WG_SIZE + li;
  let n_cols = N_HEAD * HEAD_DIM;
  let t = i / n_cols;
  if (t >= step.n_tokens) { return; }
  let d = i % HEAD_DIM;
  if (d >= N_ROT) {
    y[i] = x[i];
    return;
  }
  let n_pairs = N_ROT / 2u;
  let pair = select(d / 2u, d % n_pairs, NEOX != 0u);
  let is_first = select(d % 2u == 0u, d < n_pairs, NEOX != 0u);
  let gap = select(1u, n_pairs, NEOX != 0u);
  let turn = table[(step.pos + t) * n_pairs + pair];
  if (is_first) {
    y[i] = x[i] * turn.x - x[i + gap] * turn.y;
  } else {
    y[i] = x[i - gap] * turn.y + x[i] * turn.x;
  }
}
