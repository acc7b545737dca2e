// penalize: logits with some ids changed (bias, repetition, presence) and masked ones at LOWEST
// shapes: x, y [N_COLS]; sample: see lib/sample.wgsl; mask [N_COLS / 32 words]
// grid: one thread per 4 neighbouring ids
// limits: one row; NaN and infinities become finite
// import lib/sample.wgsl
const LARGEST: f32 = 1.0e36;
override WG_SIZE: u32 = 64u;
override N_COLS: u32 = 1u;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> mask: array<u32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

// The first row of sample whose id is not below `id`.
fn first_change(id: u32) -> u32 {
  var low = 0u;
  var high = n_changed();
  while (low < high) {
    let middle = (low + high) / 2u;
    if (sample[middle + 2u].x < id) { low = middle + 1u; } else { high = middle; }
  }
  return low;
}

fn finite(v: f32) -> f32 {
  let bits = bitcast<u32>(v);
  if ((bits & 0x7f800000u) != 0x7f800000u) { return v; }
  return select(LOWEST, -LOWEST, bits == 0x7f800000u);
}

fn changed(v: f32, row: vec4<u32>) -> f32 {
  if (v <= LOWEST) { return LOWEST; }
  var result = clamp(v + bitcast<f32>(row.y), -LARGEST, LARGEST);
  if (row.w != 0u) {
    result *= bitcast<f32>(select(sample[0].w, sample[0].z, result > 0.0));
  }
  return result - bitcast<f32>(row.z);
}

@compute @workgroup_size(WG_SIZE)
fn main(
  @builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>,
  @builtin(local_invocation_index) li: u32
) {
  let first = ((wg.x + wg.y * grid.x) * WG_SIZE + li) * 4u;
  if (first >= N_COLS) { return; }
  var at = first_change(first);
  for (var c = first; c < min(first + 4u, N_COLS); c++) {
    var v = finite(x[c]);
    if (at < n_changed() && sample[at + 2u].x == c) {
      v = changed(v, sample[at + 2u]);
      at++;
    }
    if (has_mask() && ((mask[c / 32u] >> (c % 32u)) & 1u) == 0u) { v = LOWEST; }
    y[c] = v;
  }
}
