// sample: what one draw asks for, as candidates.py writes it
// shapes: two head rows, then a row per changed id: id, bias, minus, whether it repeats
// grid: none (library)
// limits: ids ascend; LOWEST is ops/sampling.py's
const LOWEST: f32 = -3.0e38;

@group(0) @binding(1) var<storage, read> sample: array<vec4<u32>>;

fn n_changed() -> u32 { return sample[0].x; }
fn has_mask() -> bool { return sample[0].y != 0u; }
// How much a logit weighs against the best: kept inside exp's range, also where masked.
fn weight(logit: f32, best: f32) -> f32 {
  return exp(max(max(logit - best, -1.0e4) * bitcast<f32>(sample[1].x), -80.0));
}
