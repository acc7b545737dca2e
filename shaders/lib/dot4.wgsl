// dot4: one group of 16 columns of four consecutive weight rows times the same columns of x
// shapes: W [n_rows, N_COLS]; x as the mat4x4 that X_load16 gives; rows past the last repeat it
// grid: none (library); the kernel declares W_data and N_COLS
// limits: a last group of fewer than 16 columns has zero weights past the row
fn W_rows(row: u32, n_rows: u32) -> vec4<u32> {
  let n_groups = (N_COLS + 15u) / 16u;
  return min(vec4<u32>(row) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(n_rows - 1u)) * n_groups;
}

fn W_dot4(at: vec4<u32>, x: mat4x4<f32>) -> vec4<f32> {
  let m0 = W_load16(at.x);
  let m1 = W_load16(at.y);
  let m2 = W_load16(at.z);
  let m3 = W_load16(at.w);
  return vec4<f32>(
    dot(m0[0], x[0]) + dot(m0[1], x[1]) + dot(m0[2], x[2]) + dot(m0[3], x[3]),
    dot(m1[0], x[0]) + dot(m1[1], x[1]) + dot(m1[2], x[2]) + dot(m1[3], x[3]),
    dot(m2[0], x[0]) + dot(m2[1], x[1]) + dot(m2[2], x[2]) + dot(m2[3], x[3]),
    dot(m3[0], x[0]) + dot(m3[1], x[1]) + dot(m3[2], x[2]) + dot(m3[3], x[3]));
}
