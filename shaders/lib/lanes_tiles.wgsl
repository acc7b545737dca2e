// lanes (tiles family): LANES threads share a unit and sum what they found, by radix 8
// shapes: WG_SIZE / LANES units a workgroup, neighbours in a unit are neighbours in the workgroup
// grid: ceil(units * LANES / WG_SIZE) workgroups
// limits: LANES and WG_SIZE powers of two, 4 <= LANES <= WG_SIZE <= 256; every thread must call
override LANES: u32 = 64u;
var<workgroup> L_shared: array<vec4<f32>, WG_SIZE>;
var<workgroup> L_wide: array<mat3x4<f32>, WG_SIZE>;

fn L_unit(group: u32, li: u32) -> u32 { return group * (WG_SIZE / LANES) + li / LANES; }
fn L_first(li: u32) -> u32 { return li % LANES; }
fn L_stride() -> u32 { return LANES; }

// Adds up what n neighbouring threads found; at most 8 parts are left, from their first place on.
fn L_tree(v: vec4<f32>, li: u32, n: u32) -> u32 {
  workgroupBarrier();
  L_shared[li] = v;
  workgroupBarrier();
  var left = n;
  while (left > 8u) {
    left /= 8u;
    if (li % n < left) {
      var sum = L_shared[li];
      for (var k = 1u; k < 8u; k++) { sum += L_shared[li + k * left]; }
      L_shared[li] = sum;
    }
    workgroupBarrier();
  }
  return left;
}

// The sum over a unit: its first four threads, which write the result, each know their element.
fn L_sum4(v: vec4<f32>, li: u32) -> vec4<f32> {
  let left = L_tree(v, li, LANES);
  let lane = li % LANES;
  if (lane >= 4u) { return v; }
  var sum = L_shared[li - lane];
  for (var k = 1u; k < left; k++) { sum += L_shared[li - lane + k]; }
  return sum;
}

// The sum over the workgroup, known to all.
fn L_sum_all(v: f32, li: u32) -> f32 {
  let left = L_tree(vec4<f32>(v), li, WG_SIZE);
  var sum = 0.0;
  for (var k = 0u; k < left; k++) { sum += L_shared[k].x; }
  return sum;
}

// As L_sum4, of three vectors at once.
fn L_sum12(v: mat3x4<f32>, li: u32) -> mat3x4<f32> {
  workgroupBarrier();
  L_wide[li] = v;
  workgroupBarrier();
  let lane = li % LANES;
  var left = LANES;
  while (left > 8u) {
    left /= 8u;
    if (lane < left) {
      var sum = L_wide[li];
      for (var k = 1u; k < 8u; k++) { sum += L_wide[li + k * left]; }
      L_wide[li] = sum;
    }
    workgroupBarrier();
  }
  if (lane >= 4u) { return v; }
  var sum = L_wide[li - lane];
  for (var k = 1u; k < left; k++) { sum += L_wide[li - lane + k]; }
  return sum;
}
