// temper: what a query at a position is multiplied by (attention temperature)
// shapes: u32 -> f32
// grid: none (library)
// limits: LENGTH >= 1; SLOPE 0 leaves everything as it is
override SLOPE: f32 = 0.0;
override LENGTH: u32 = 1u;

fn temper(position: u32) -> f32 {
  if (SLOPE == 0.0) { return 1.0; }
  return 1.0 + SLOPE * log(1.0 + f32(position / LENGTH));
}
