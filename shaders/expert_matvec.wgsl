// expert_matvec: y[s, r] = dot(W[experts[s], r, :], x[s, :]) + bias[experts[s], r], for one token
// shapes: x [N_USED or 1, N_COLS]; W: see lib/slot; bias [N_EXPERT, N_ROWS]; y [N_USED, N_ROWS]
// grid: four rows per unit (see lanes), folded over x and y; z = slot
// limits: N_COLS % 4 == 0; writes the rows that lie in this chunk
// import lanes as L
// import quant as W
// import lib/dot4.wgsl as W
// import lib/input_plain.wgsl
// import lib/slot.wgsl
override WG_SIZE: u32 = 64u;
override N_COLS: u32 = 32u;
override N_USED: u32 = 1u;
override OWN_X: u32 = 0u;
override HAS_BIAS: u32 = 0u;
struct Params { row_start: u32 }
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> experts: array<u32>;
@group(0) @binding(2) var<storage, read> W_data: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;
@group(0) @binding(5) var<uniform> params: Params;

@compute @workgroup_size(WG_SIZE)
fn main(
  @builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>,
  @builtin(local_invocation_index) li: u32
) {
  let group = wg.x + wg.y * grid.x;
  let slot = wg.z;
  if (L_unit(group, 0u) * 4u >= N_ROWS || slot >= N_USED) { return; }
  let row = L_unit(group, li) * 4u;
  let expert = experts[slot];
  let span = span_of(expert, row, params.row_start);
  // Units outside the chunk go on to the barriers of the sum with nothing to add.
  let n_groups = select(0u, (N_COLS + 15u) / 16u, span.is_inside);
  let at = W_rows(span.first, span.end);
  x_start = OWN_X * slot * (N_COLS / 4u);
  var part = vec4<f32>(0.0);
  for (var g = L_first(li); g < n_groups; g += L_stride()) {
    part += W_dot4(at + g, X_load16(g));
  }
  let sum = L_sum4(part, li);
  if (!span.is_inside) { return; }
  for (var r = L_first(li); r < 4u && row + r < N_ROWS; r += L_stride()) {
    var v = sum[r];
    if (HAS_BIAS != 0u) { v += bias[min(expert, N_EXPERT - 1u) * N_ROWS + row + r]; }
    y[slot * N_ROWS + row + r] = v;
  }
}
