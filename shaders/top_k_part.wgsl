// top_k_part: each thread's largest value and softmax sum over its share, first of four stages
// shapes: x [N_COLS]; parts [n] (largest, sum of exp((x - largest) / temperature))
// grid: one thread per SHARE values, WG_SIZE apart
// limits: one row of finite values; a thread without any leaves LOWEST and 0
// import lib/sample.wgsl
override WG_SIZE: u32 = 64u;
override N_COLS: u32 = 1u;
override SHARE: u32 = 1u;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> parts: array<vec2<f32>>;

@compute @workgroup_size(WG_SIZE)
fn main(
  @builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>,
  @builtin(local_invocation_index) li: u32
) {
  let group = wg.x + wg.y * grid.x;
  let part = group * WG_SIZE + li;
  if (part >= arrayLength(&parts)) { return; }
  let first = group * WG_SIZE * SHARE + li;
  let end = min(first + SHARE * WG_SIZE, N_COLS);
  var best = LOWEST;
  for (var c = first; c < end; c += WG_SIZE) { best = max(best, x[c]); }
  var sum = 0.0;
  if (best > LOWEST) {
    for (var c = first; c < end; c += WG_SIZE) { sum += weight(x[c], best); }
  }
  parts[part] = vec2<f32>(best, sum);
}
