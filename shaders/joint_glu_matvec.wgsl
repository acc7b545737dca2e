// joint_glu_matvec: sum = x + rms_norm(a, post_norm); y = activate(WG h) * (WU h), h = rms_norm(sum)
// shapes: x, a, sum, post_norm, norm [N_COLS]; WG, WU [N_ROWS, N_COLS]; y [N_ROWS]
// grid: four rows per unit (see lanes), folded over x and y
// limits: one token; tiles family only; N_COLS % 4 == 0
// import lanes as L
// import quant_gate as WG
// import quant_up as WU
// import lib/dot4.wgsl as WG
// import lib/dot4.wgsl as WU
// import lib/input_joint.wgsl
// import lib/glu_rows.wgsl
override WG_SIZE: u32 = 64u;
override N_COLS: u32 = 32u;
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> post_norm: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> norm: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> WG_data: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> WU_data: array<vec4<u32>>;
@group(0) @binding(6) var<storage, read_write> sum: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WG_SIZE)
fn main(
  @builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>,
  @builtin(local_invocation_index) li: u32
) {
  let group = wg.x + wg.y * grid.x;
  if (L_unit(group, 0u) * 4u >= N_ROWS) { return; }
  let n_threads = (N_ROWS + 3u) / 4u * L_stride();
  X_begin(group, (n_threads + WG_SIZE - 1u) / WG_SIZE, li);
  let row = L_unit(group, li) * 4u;
  let v = glu_rows(row, li);
  for (var r = L_first(li); r < 4u && row + r < N_ROWS; r += L_stride()) { y[row + r] = v[r]; }
}
