// expert_glu_matvec: y[s, r] = gated(dot(WG[e, r, :], x) + bg[e, r], dot(WU[e, r, :], x) + bu[e, r])
// shapes: x [N_USED or 1, N_COLS]; e = experts[s]; WG, WU [N_EXPERT, N_ROWS, N_COLS]; y [N_USED, N_ROWS]
// grid: four rows per unit (see lanes), folded over x and y; z = slot
// limits: one token; whole weights; N_COLS % 4 == 0
// import lanes as L
// import quant_gate as WG
// import quant_up as WU
// import lib/dot4.wgsl as WG
// import lib/dot4.wgsl as WU
// import lib/input_plain.wgsl
// import lib/slot.wgsl
// import lib/expert_gate.wgsl
override WG_SIZE: u32 = 64u;
override N_COLS: u32 = 32u;
override N_USED: u32 = 1u;
override OWN_X: u32 = 0u;
override HAS_BIAS: u32 = 0u;
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> experts: array<u32>;
@group(0) @binding(2) var<storage, read> WG_data: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> WU_data: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> bias_gate: array<f32>;
@group(0) @binding(5) var<storage, read> bias_up: array<f32>;
@group(0) @binding(6) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WG_SIZE)
fn main(
  @builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>,
  @builtin(local_invocation_index) li: u32
) {
  let group = wg.x + wg.y * grid.x;
  let slot = wg.z;
  if (L_unit(group, 0u) * 4u >= N_ROWS || slot >= N_USED) { return; }
  let row = L_unit(group, li) * 4u;
  let span = span_of(experts[slot], row, 0u);
  let n_groups = select(0u, (N_COLS + 15u) / 16u, span.is_inside);
  let gate_at = WG_rows(span.first, span.end);
  let up_at = WU_rows(span.first, span.end);
  x_start = OWN_X * slot * (N_COLS / 4u);
  var gate = vec4<f32>(0.0);
  var up = vec4<f32>(0.0);
  for (var g = L_first(li); g < n_groups; g += L_stride()) {
    let v = X_load16(g);
    gate += WG_dot4(gate_at + g, v);
    up += WU_dot4(up_at + g, v);
  }
  let sums = L_sum12(mat3x4<f32>(gate, up, vec4<f32>(0.0)), li);
  for (var r = L_first(li); r < 4u && row + r < N_ROWS; r += L_stride()) {
    var a = sums[0][r];
    var b = sums[1][r];
    if (HAS_BIAS != 0u) {
      a += bias_gate[span.first + r];
      b += bias_up[span.first + r];
    }
    y[slot * N_ROWS + row + r] = gated(a, b);
  }
}
