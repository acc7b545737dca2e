// input: 16 columns of sum = x + rms_norm(a, post_norm), times the weight of sum's own norm
// shapes: x, a, sum, post_norm, norm [N_COLS]; squares: the thread's share
// grid: none (library); the kernel declares those and N_COLS and imports lanes as L
// limits: every workgroup reads all of a before its product; sum's scale comes last, as in norm
override EPS: f32 = 1e-6;
var<private> squares: f32;
var<private> a_scale: f32;

fn X_sum(c: u32) -> vec4<f32> { return x[c] + a[c] * a_scale * post_norm[c]; }

// Before the product: the scale of a; and this workgroup's share of sum is written.
fn X_begin(group: u32, n_groups: u32, li: u32) {
  let n4 = N_COLS / 4u;
  var part = 0.0;
  for (var c = li; c < n4; c += WG_SIZE) { part += dot(a[c], a[c]); }
  a_scale = 1.0 / sqrt(L_sum_all(part, li) / f32(N_COLS) + EPS);
  for (var c = group * WG_SIZE + li; c < n4; c += n_groups * WG_SIZE) { sum[c] = X_sum(c); }
}

fn X_at(c: u32) -> vec4<f32> {
  let n4 = N_COLS / 4u;
  if (c >= n4) { return vec4<f32>(0.0); }
  let v = X_sum(c);
  squares += dot(v, v);
  return v * norm[c];
}

fn X_load16(g: u32) -> mat4x4<f32> {
  let c = g * 4u;
  return mat4x4<f32>(X_at(c), X_at(c + 1u), X_at(c + 2u), X_at(c + 3u));
}

fn X_scale(all_squares: f32) -> f32 { return 1.0 / sqrt(all_squares / f32(N_COLS) + EPS); }
