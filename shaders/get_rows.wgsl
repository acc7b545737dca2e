// get_rows: y[t, :] = W[id, :] * SCALE, for ids in this chunk; id = ids[t], or t's position
// shapes: ids [n_tokens]; W [N_ROWS, N_COLS], rows row_start.. of the table; y [n_tokens, N_COLS]
// grid: one thread per 16 columns of a token, folded over x and y
// limits: none
// import lib/step.wgsl
// import quant as W
override WG_SIZE: u32 = 64u;
override N_ROWS: u32 = 1u;
override N_COLS: u32 = 32u;
override SCALE: f32 = 1.0;
override BY_POSITION: u32 = 0u;
struct Params { row_start: u32 }
@group(0) @binding(0) var<storage, read> ids: array<u32>;
@group(0) @binding(1) var<storage, read> W_data: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@group(0) @binding(3) var<uniform> params: Params;
@group(0) @binding(4) var<uniform> step: Step;

@compute @workgroup_size(WG_SIZE)
fn main(
  @builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>,
  @builtin(local_invocation_index) li: u32
) {
  let n_groups = (N_COLS + 15u) / 16u;
  let i = (wg.x + wg.y * grid.x) * WG_SIZE + li;
  let t = i / n_groups;
  if (t >= step.n_tokens) { return; }
  let id = select(ids[t], step.pos + t, BY_POSITION != 0u);
  let row = id - params.row_start;
  if (id < params.row_start || row >= N_ROWS) { return; }
  let g = i % n_groups;
  let m = W_load16(row * n_groups + g);
  for (var j = 0u; j < 16u; j++) {
    let c = g * 16u + j;
    if (c < N_COLS) { y[t * N_COLS + c] = m[j / 4u][j % 4u] * SCALE; }
  }
}
