// activation: 0 = silu, 1 = gelu (tanh form), 2 = gelu (erf form), 3 = relu, 4 = relu squared
// shapes: f32 -> f32
// grid: none (library)
// limits: exp and tanh are kept inside the range where they are finite
override ACTIVATION: u32 = 0u;

fn tanh_safe(v: f32) -> f32 {
  let e = exp(2.0 * clamp(v, -15.0, 15.0));
  return (e - 1.0) / (e + 1.0);
}

// Abramowitz and Stegun 7.1.26, absolute error below 1.5e-7.
fn erf_approx(v: f32) -> f32 {
  let a = abs(v);
  let t = 1.0 / (1.0 + 0.3275911 * a);
  let poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  return sign(v) * (1.0 - poly * exp(-min(a * a, 80.0)));
}

fn activate(v: f32) -> f32 {
  if (ACTIVATION == 0u) { return v / (1.0 + exp(clamp(-v, -80.0, 80.0))); }
  if (ACTIVATION == 1u) {
    return 0.5 * v * (1.0 + tanh_safe(0.7978845608 * (v + 0.044715 * v * v * v)));
  }
  if (ACTIVATION == 2u) { return 0.5 * v * (1.0 + erf_approx(v * 0.7071067812)); }
  let positive = max(v, 0.0);
  return select(positive, positive * positive, ACTIVATION == 4u);
}
