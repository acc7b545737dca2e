// lanes (subgroups family): as lanes_tiles, summed by shuffles; barriers only beyond MIN_SUBGROUP
// shapes: WG_SIZE / LANES units a workgroup, neighbours in a unit are neighbours in a subgroup
// grid: ceil(units * LANES / WG_SIZE) workgroups
// limits: powers of two; 4 <= LANES <= WG_SIZE <= 256; every thread must call
//! needs subgroups
override LANES: u32 = 64u;
// No subgroup has fewer threads, whatever its size turns out to be; WebGPU knows none below 4.
override MIN_SUBGROUP: u32 = 4u;
var<workgroup> L_shared: array<f32, WG_SIZE>;
var<workgroup> L_wide: array<vec3<f32>, WG_SIZE>;

fn L_unit(group: u32, li: u32) -> u32 { return group * (WG_SIZE / LANES) + li / LANES; }
fn L_first(li: u32) -> u32 { return li % LANES; }
fn L_stride() -> u32 { return LANES; }

// Four threads' vectors turned: thread r has the sum of their elements r % 4. At each step a
// thread hands over the half that it does not keep, so three shuffles do.
fn L_turn(v: vec4<f32>, li: u32) -> f32 {
  let odd = (li & 1u) != 0u;
  let two = select(v.xz, v.yw, odd) + subgroupShuffleXor(select(v.yw, v.xz, odd), 1u);
  let high = (li & 2u) != 0u;
  return select(two.x, two.y, high) + subgroupShuffleXor(select(two.y, two.x, high), 2u);
}

// The sum over every step-th of n neighbouring threads, known to all of them.
fn L_add(v: f32, li: u32, step: u32, n: u32) -> f32 {
  var sum = v;
  let near = min(n, MIN_SUBGROUP);
  for (var o = step; o < near; o *= 2u) { sum += subgroupShuffleXor(sum, o); }
  if (near == n) { return sum; }
  workgroupBarrier();
  L_shared[li] = sum;
  workgroupBarrier();
  let first = li / n * n + li % near;
  sum = L_shared[first];
  for (var k = near; k < n; k += near) { sum += L_shared[first + k]; }
  return sum;
}

// As L_add, of three values at once.
fn L_add3(v: vec3<f32>, li: u32, step: u32, n: u32) -> vec3<f32> {
  var sum = v;
  let near = min(n, MIN_SUBGROUP);
  for (var o = step; o < near; o *= 2u) { sum += subgroupShuffleXor(sum, o); }
  if (near == n) { return sum; }
  workgroupBarrier();
  L_wide[li] = sum;
  workgroupBarrier();
  let first = li / n * n + li % near;
  sum = L_wide[first];
  for (var k = near; k < n; k += near) { sum += L_wide[first + k]; }
  return sum;
}

// The sum over a unit: its first four threads, which write the result, each know their element.
fn L_sum4(v: vec4<f32>, li: u32) -> vec4<f32> {
  return vec4<f32>(L_add(L_turn(v, li), li, 4u, LANES));
}

// The sum over the workgroup, known to all.
fn L_sum_all(v: f32, li: u32) -> f32 { return L_add(v, li, 1u, WG_SIZE); }

// As L_sum4, of three vectors at once.
fn L_sum12(v: mat3x4<f32>, li: u32) -> mat3x4<f32> {
  let turned = vec3<f32>(L_turn(v[0], li), L_turn(v[1], li), L_turn(v[2], li));
  let sum = L_add3(turned, li, 4u, LANES);
  return mat3x4<f32>(vec4<f32>(sum.x), vec4<f32>(sum.y), vec4<f32>(sum.z));
}
