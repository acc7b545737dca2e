// glu_matvec: y[r] = activate(dot(WG[r, :], x)) * dot(WU[r, :], x) for one token
// shapes: x [N_COLS]; WG, WU [N_ROWS, N_COLS]; y [N_ROWS]
// grid: four rows per unit (see lanes), folded over x and y
// limits: N_COLS % 4 == 0
// import lib/activation.wgsl
// import lanes as L
// import quant_gate as WG
// import quant_up as WU
// import lib/dot4.wgsl as WG
// import lib/dot4.wgsl as WU
override WG_SIZE: u32 = 64u;
override N_ROWS: u32 = 1u;
override N_COLS: u32 = 32u;
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> WG_data: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> WU_data: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WG_SIZE)
fn main(
  @builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>,
  @builtin(local_invocation_index) li: u32
) {
  let row = L_unit(wg.x + wg.y * grid.x, li) * 4u;
  if (row >= N_ROWS) { return; }
  let gate = L_sum4(WG_dot4(row, N_ROWS, 0u, L_first(li), L_stride()), li);
  let up = L_sum4(WU_dot4(row, N_ROWS, 0u, L_first(li), L_stride()), li);
  if (!L_is_writer(li)) { return; }
  for (var r = 0u; r < 4u; r++) {
    if (row + r >= N_ROWS) { return; }
    y[row + r] = activate(gate[r]) * up[r];
  }
}
