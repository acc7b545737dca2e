// sink: what a head's learnt sink adds to the softmax's total; its value is nothing
// shapes: sinks [N_HEAD]; top: the largest of all the head's scores
// grid: none (library); the kernel declares sinks
// limits: past e^80 times the largest weight the result is 0 in float32 anyway
override HAS_SINKS: u32 = 0u;

fn sink_weight(head: u32, top: f32) -> f32 {
  if (HAS_SINKS == 0u) { return 0.0; }
  return exp(clamp(sinks[head] - top, -80.0, 80.0));
}
