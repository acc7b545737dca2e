// narrow_f16: rows of activations as float16, scaled by a power of two so that none overflows
// shapes: x [n, N_COLS]; y [n, N_COLS] as vec4 of halves; scales [n]: x = y * scale
// grid: one workgroup of 64 per row, folded over x and y
// limits: N_COLS % 4 == 0; what is 2^-24 of a row's largest value and less becomes 0
// import lib/step.wgsl
override N_COLS: u32 = 4u;
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> y: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read_write> scales: array<f32>;
@group(0) @binding(3) var<uniform> step: Step;
var<workgroup> tops: array<u32, 64>;

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>,
  @builtin(local_invocation_index) li: u32
) {
  let row = wg.x + wg.y * grid.x;
  if (row >= step.n_tokens) { return; }
  let n4 = N_COLS / 4u;
  // Without their sign, floats compare as their bits do, and a NaN is the largest.
  var most = vec4<u32>(0u);
  for (var c = li; c < n4; c += 64u) {
    most = max(most, bitcast<vec4<u32>>(x[row * n4 + c]) & vec4<u32>(0x7fffffffu));
  }
  tops[li] = max(max(most.x, most.y), max(most.z, most.w));
  workgroupBarrier();
  var top = 0u;
  for (var i = 0u; i < 64u; i++) { top = max(top, tops[i]); }
  // The exponent alone: scaling and its inverse are exact, and values end up below 2.
  let exponent = clamp(top & 0x7f800000u, 1u << 23u, 253u << 23u);
  let inverse = bitcast<f32>((254u << 23u) - exponent);
  for (var c = li; c < n4; c += 64u) {
    let v = x[row * n4 + c] * inverse;
    y[row * n4 + c] = vec2<u32>(pack2x16float(v.xy), pack2x16float(v.zw));
  }
  if (li == 0u) { scales[row] = bitcast<f32>(exponent); }
}
