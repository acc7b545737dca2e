// lanes (tiles family): the threads of a workgroup share one unit and sum what they found
// shapes: unit = workgroup
// grid: one workgroup per unit
// limits: WG_SIZE is a power of two, at most 256
var<workgroup> L_shared: array<vec4<f32>, WG_SIZE>;

fn L_unit(group: u32, li: u32) -> u32 { return group; }
fn L_first(li: u32) -> u32 { return li; }
fn L_stride() -> u32 { return WG_SIZE; }
fn L_is_writer(li: u32) -> bool { return li == 0u; }

// The sum over all threads, known to all of them.
fn L_sum4(v: vec4<f32>, li: u32) -> vec4<f32> {
  workgroupBarrier();
  L_shared[li] = v;
  workgroupBarrier();
  for (var o = WG_SIZE / 2u; o > 0u; o /= 2u) {
    if (li < o) { L_shared[li] += L_shared[li + o]; }
    workgroupBarrier();
  }
  return L_shared[0];
}

fn L_max(v: f32, li: u32) -> f32 {
  workgroupBarrier();
  L_shared[li].x = v;
  workgroupBarrier();
  for (var o = WG_SIZE / 2u; o > 0u; o /= 2u) {
    if (li < o) { L_shared[li].x = max(L_shared[li].x, L_shared[li + o].x); }
    workgroupBarrier();
  }
  return L_shared[0].x;
}
