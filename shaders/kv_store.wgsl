// kv_store: k and v of each token written to the cache at its position
// shapes: k [n_tokens, 4 * K4], v [n_tokens, 4 * V4]; caches [n_ctx, ..]
// grid: one thread per four values of k, then of v, folded over x and y
// limits: row widths multiples of 4
// import kv as C
// import lib/step.wgsl
override WG_SIZE: u32 = 64u;
override K4: u32 = 1u;
override V4: u32 = 1u;
@group(0) @binding(0) var<storage, read> k: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> v: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> k_cache: array<C_elem>;
@group(0) @binding(3) var<storage, read_write> v_cache: array<C_elem>;
@group(0) @binding(4) var<uniform> step: Step;

@compute @workgroup_size(WG_SIZE)
fn main(
  @builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>,
  @builtin(local_invocation_index) li: u32
) {
  let i = (wg.x + wg.y * grid.x) * WG_SIZE + li;
  let t = i / (K4 + V4);
  if (t >= step.n_tokens) { return; }
  let c = i % (K4 + V4);
  if (c < K4) {
    k_cache[(step.pos + t) * K4 + c] = C_encode(k[t * K4 + c]);
  } else {
    v_cache[(step.pos + t) * V4 + c - K4] = C_encode(v[t * V4 + c - K4]);
  }
}
