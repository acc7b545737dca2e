// qkv_rows: a thread's share of four rows of [WQ | WK | WV] times the input
// shapes: WQ [N_Q, N_COLS], WK [N_K, ..], WV [N_V, ..]
// grid: none (library); the kernel imports lanes, an input, and each quant with its dot4
// limits: N_Q and N_K multiples of 4
override N_Q: u32 = 4u;
override N_K: u32 = 4u;
override N_V: u32 = 4u;

fn qkv_part(row: u32, li: u32) -> vec4<f32> {
  let n_groups = (N_COLS + 15u) / 16u;
  var part = vec4<f32>(0.0);
  if (row < N_Q) {
    let at = WQ_rows(row, N_Q);
    for (var g = L_first(li); g < n_groups; g += L_stride()) { part += WQ_dot4(at + g, X_load16(g)); }
  } else if (row < N_Q + N_K) {
    let at = WK_rows(row - N_Q, N_K);
    for (var g = L_first(li); g < n_groups; g += L_stride()) { part += WK_dot4(at + g, X_load16(g)); }
  } else {
    let at = WV_rows(row - N_Q - N_K, N_V);
    for (var g = L_first(li); g < n_groups; g += L_stride()) { part += WV_dot4(at + g, X_load16(g)); }
  }
  return part;
}
