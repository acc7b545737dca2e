// expert_gate: the gated unit of an expert; CLAMPED is GPT-OSS's, g * sigmoid(ALPHA * g) * (up + 1)
// shapes: f32, f32 -> f32
// grid: none (library)
// limits: exp stays inside its finite range
// import lib/activation.wgsl
override CLAMPED: u32 = 0u;
override ALPHA: f32 = 1.0;
override LIMIT: f32 = 1.0;

fn gated(gate: f32, up: f32) -> f32 {
  if (CLAMPED == 0u) { return activate(gate) * up; }
  let g = min(gate, LIMIT);
  return g / (1.0 + exp(clamp(-ALPHA * g, -80.0, 80.0))) * (clamp(up, -LIMIT, LIMIT) + 1.0);
}
