// argmax: index of the largest value of each row from the parts, second of two stages
// shapes: parts [n, N_PARTS] (bits of the value, index); y [n]
// grid: one workgroup per row; with WG_SIZE 1 the loop of the last lines never runs
// limits: WG_SIZE a power of two; the lowest index wins a tie
// import lib/step.wgsl
override WG_SIZE: u32 = 64u;
override N_PARTS: u32 = 1u;
override USE_N_OUT: u32 = 0u;
@group(0) @binding(0) var<storage, read> parts: array<vec2<u32>>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
@group(0) @binding(2) var<uniform> step: Step;
var<workgroup> values: array<f32, WG_SIZE>;
var<workgroup> indices: array<u32, WG_SIZE>;

@compute @workgroup_size(WG_SIZE)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  if (wg.x >= select(step.n_tokens, step.n_out, USE_N_OUT != 0u)) { return; }
  var best = -3.0e38;
  var index = 0xffffffffu;
  for (var p = li; p < N_PARTS; p += WG_SIZE) {
    let part = parts[wg.x * N_PARTS + p];
    let v = bitcast<f32>(part.x);
    if (v > best || (v == best && part.y < index)) {
      best = v;
      index = part.y;
    }
  }
  values[li] = best;
  indices[li] = index;
  workgroupBarrier();
  for (var o = WG_SIZE / 2u; o > 0u; o /= 2u) {
    if (li < o) {
      let v = values[li + o];
      if (v > values[li] || (v == values[li] && indices[li + o] < indices[li])) {
        values[li] = v;
        indices[li] = indices[li + o];
      }
    }
    workgroupBarrier();
  }
  if (li == 0u) { y[wg.x] = indices[0]; }
}
