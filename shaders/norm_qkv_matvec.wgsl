// norm_qkv_matvec: y = [WQ h | WK h | WV h] for one token, h = rms_norm(x)
// shapes: x, norm [N_COLS]; WQ [N_Q, N_COLS], WK [N_K, ..], WV [N_V, ..]; y [N_Q + N_K + N_V]
// grid: four rows per unit (see lanes), folded over x and y
// limits: N_COLS % 4 == 0; N_Q and N_K multiples of 4
// import lanes as L
// import quant_q as WQ
// import quant_k as WK
// import quant_v as WV
// import lib/dot4.wgsl as WQ
// import lib/dot4.wgsl as WK
// import lib/dot4.wgsl as WV
// import lib/input_norm.wgsl
// import lib/qkv_rows.wgsl
override WG_SIZE: u32 = 64u;
override N_COLS: u32 = 32u;
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> norm: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> WQ_data: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> WK_data: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> WV_data: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WG_SIZE)
fn main(
  @builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>,
  @builtin(local_invocation_index) li: u32
) {
  let group = wg.x + wg.y * grid.x;
  let n_rows = N_Q + N_K + N_V;
  if (L_unit(group, 0u) * 4u >= n_rows) { return; }
  let row = L_unit(group, li) * 4u;
  let part = qkv_part(row, li);
  let dots = L_sum4(part, li);
  let sum = dots * X_scale(L_sum4(vec4<f32>(squares), li).x);
  for (var r = L_first(li); r < 4u && row + r < n_rows; r += L_stride()) { y[row + r] = sum[r]; }
}
