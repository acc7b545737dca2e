// argmax_part: the largest of each thread's share of a row, first of two stages
// shapes: x [n, N_COLS]; parts [n, N_PARTS] (bits of the value, index)
// grid: one thread per 64 values, WG_SIZE apart; x and y = shares, z = row
// limits: the lowest index wins a tie; a NaN gives 0xffffffff; n is n_out with USE_N_OUT
// import lib/step.wgsl
override WG_SIZE: u32 = 64u;
override N_COLS: u32 = 1u;
override N_PARTS: u32 = 1u;
override USE_N_OUT: u32 = 0u;
@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> parts: array<vec2<u32>>;
@group(0) @binding(2) var<uniform> step: Step;

@compute @workgroup_size(WG_SIZE)
fn main(
  @builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>,
  @builtin(local_invocation_index) li: u32
) {
  let group = wg.x + wg.y * grid.x;
  let part = group * WG_SIZE + li;
  if (part >= N_PARTS || wg.z >= select(step.n_tokens, step.n_out, USE_N_OUT != 0u)) { return; }
  var best = -3.0e38;
  var index = 0u;
  let first = group * WG_SIZE * 64u + li;
  for (var j = 0u; j < 64u; j++) {
    let c = first + j * WG_SIZE;
    if (c < N_COLS) {
      // By its bits: a compiler may assume that no value is a NaN.
      let bits = x[wg.z * N_COLS + c];
      let v = bitcast<f32>(bits);
      if ((bits & 0x7fffffffu) > 0x7f800000u) {
        best = 3.4028234e38;
        index = 0xffffffffu;
      } else if (v > best) {
        best = v;
        index = c;
      }
    }
  }
  parts[wg.z * N_PARTS + part] = vec2<u32>(bitcast<u32>(best), index);
}
