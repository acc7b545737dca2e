// kv_store: k and v of each token written to the cache at its position
// shapes: k [n_tokens, ..], v [n_tokens, ..]; caches [n_ctx, ..]
// grid: one thread per block of k, then of v, folded over x and y
// limits: rows of whole blocks
// import kv as C
// import lib/step.wgsl
override WG_SIZE: u32 = 64u;
override K_BLOCKS: u32 = 1u;
override V_BLOCKS: u32 = 1u;
@group(0) @binding(0) var<storage, read> k: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> v: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> k_cache: array<C_word>;
@group(0) @binding(3) var<storage, read_write> v_cache: array<C_word>;
@group(0) @binding(4) var<uniform> step: Step;

@compute @workgroup_size(WG_SIZE)
fn main(
  @builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>,
  @builtin(local_invocation_index) li: u32
) {
  let i = (wg.x + wg.y * grid.x) * WG_SIZE + li;
  let t = i / (K_BLOCKS + V_BLOCKS);
  if (t >= step.n_tokens) { return; }
  let c = i % (K_BLOCKS + V_BLOCKS);
  let is_key = c < K_BLOCKS;
  let width = select(V_BLOCKS, K_BLOCKS, is_key);
  let column = select(c - K_BLOCKS, c, is_key);
  var fours: array<vec4<f32>, C_FOURS>;
  for (var j = 0u; j < C_FOURS; j++) {
    let at = (t * width + column) * C_FOURS + j;
    if (is_key) { fours[j] = k[at]; } else { fours[j] = v[at]; }
  }
  var block = C_encode(&fours);
  for (var w = 0u; w < C_WORDS; w++) {
    let at = ((step.pos + t) * width + column) * C_WORDS + w;
    if (is_key) { k_cache[at] = block[w]; } else { v_cache[at] = block[w]; }
  }
}
