// expert_matvec_sum: y[r] = sum_s shares[s] * (dot(W[e, r, :], x[s, :]) + bias[e, r]) + residual[r]
// shapes: x [N_USED, N_COLS]; e = experts[s]; W [N_EXPERT, N_ROWS, N_COLS]; residual, y [N_ROWS]
// grid: four rows per unit (see lanes), folded over x and y
// limits: one token; a whole weight; N_COLS % 4 == 0
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
override HAS_RESIDUAL: u32 = 0u;
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> experts: array<u32>;
@group(0) @binding(2) var<storage, read> shares: array<f32>;
@group(0) @binding(3) var<storage, read> W_data: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> bias: array<f32>;
@group(0) @binding(5) var<storage, read> residual: array<f32>;
@group(0) @binding(6) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WG_SIZE)
fn main(
  @builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>,
  @builtin(local_invocation_index) li: u32
) {
  let group = wg.x + wg.y * grid.x;
  if (L_unit(group, 0u) * 4u >= N_ROWS) { return; }
  let row = L_unit(group, li) * 4u;
  let n_groups = (N_COLS + 15u) / 16u;
  // Lanes run over the columns of all slots, so that narrow experts keep them busy too.
  let n = select(0u, N_USED * n_groups, row < N_ROWS);
  var part = vec4<f32>(0.0);
  for (var i = L_first(li); i < n; i += L_stride()) {
    let slot = i / n_groups;
    let g = i % n_groups;
    let span = span_of(experts[slot], row, 0u);
    x_start = OWN_X * slot * (N_COLS / 4u);
    part += shares[slot] * W_dot4(W_rows(span.first, span.end) + g, X_load16(g));
  }
  let sum = L_sum4(part, li);
  for (var r = L_first(li); r < 4u && row + r < N_ROWS; r += L_stride()) {
    var v = sum[r];
    if (HAS_BIAS != 0u) {
      for (var s = 0u; s < N_USED; s++) {
        v += shares[s] * bias[span_of(experts[s], row + r, 0u).first];
      }
    }
    if (HAS_RESIDUAL != 0u) { v += residual[row + r]; }
    y[row + r] = v;
  }
}
