// input: 16 columns of x, times the weight of its norm with HAS_NORM; the row's scale comes last,
// shapes: since W (x * w * r) = r * W (x * w); x and norm [N_COLS]; squares: the thread's share
// grid: none (library); the kernel declares x, norm and N_COLS
// limits: columns past the row repeat the last ones without HAS_NORM, and are zero with it
override HAS_NORM: u32 = 0u;
override EPS: f32 = 1e-6;
var<private> squares: f32;

fn X_at(c: u32) -> vec4<f32> {
  let end = N_COLS / 4u - 1u;
  let v = x[min(c, end)];
  if (HAS_NORM == 0u) { return v; }
  if (c > end) { return vec4<f32>(0.0); }
  squares += dot(v, v);
  return v * norm[c];
}

fn X_load16(g: u32) -> mat4x4<f32> {
  let c = g * 4u;
  return mat4x4<f32>(X_at(c), X_at(c + 1u), X_at(c + 2u), X_at(c + 3u));
}

// What the norm multiplies the product with, from the sum of squares of the whole row.
fn X_scale(all_squares: f32) -> f32 {
  if (HAS_NORM == 0u) { return 1.0; }
  return 1.0 / sqrt(all_squares / f32(N_COLS) + EPS);
}
