// glu_rows: four rows of activate(r * WG x) * (r * WU x), the input read once for both
// shapes: WG, WU [N_ROWS, N_COLS]; r is the input's scale
// grid: none (library); the kernel imports lanes, an input, and each quant with its dot4
// limits: every thread must call
// import lib/activation.wgsl
override N_ROWS: u32 = 1u;

fn glu_rows(row: u32, li: u32) -> vec4<f32> {
  let n_groups = (N_COLS + 15u) / 16u;
  let gate_at = WG_rows(row, N_ROWS);
  let up_at = WU_rows(row, N_ROWS);
  var gate = vec4<f32>(0.0);
  var up = vec4<f32>(0.0);
  for (var g = L_first(li); g < n_groups; g += L_stride()) {
    let v = X_load16(g);
    gate += WG_dot4(gate_at + g, v);
    up += WU_dot4(up_at + g, v);
  }
  let sums = L_sum12(mat3x4<f32>(gate, up, vec4<f32>(squares)), li);
  let scale = X_scale(sums[2].x);
  let v = sums[0] * scale;
  return vec4<f32>(activate(v.x), activate(v.y), activate(v.z), activate(v.w)) * sums[1] * scale;
}
