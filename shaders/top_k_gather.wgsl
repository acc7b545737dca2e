// top_k_gather: every value that reaches the border, in any order
// shapes: x [N_COLS]; parts, cut: see top_k_cut; count [1]; found [CAPACITY] (bits, id)
// grid: one thread per share, as in top_k_part
// limits: count may pass CAPACITY: then the answer is not whole
override WG_SIZE: u32 = 64u;
override N_COLS: u32 = 1u;
override SHARE: u32 = 1u;
const LOWEST: f32 = -3.0e38;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> parts: array<vec2<f32>>;
@group(0) @binding(2) var<storage, read> cut: array<f32>;
@group(0) @binding(3) var<storage, read_write> count: atomic<u32>;
@group(0) @binding(4) var<storage, read_write> found: array<vec2<u32>>;

@compute @workgroup_size(WG_SIZE)
fn main(
  @builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>,
  @builtin(local_invocation_index) li: u32
) {
  let group = wg.x + wg.y * grid.x;
  let part = group * WG_SIZE + li;
  let border = cut[0];
  if (part >= arrayLength(&parts) || parts[part].x < border) { return; }
  let first = group * WG_SIZE * SHARE + li;
  let end = min(first + SHARE * WG_SIZE, N_COLS);
  for (var c = first; c < end; c += WG_SIZE) {
    let v = x[c];
    if (v >= border && v > LOWEST) {
      let at = atomicAdd(&count, 1u);
      if (at < arrayLength(&found)) { found[at] = vec2<u32>(bitcast<u32>(v), c); }
    }
  }
}
