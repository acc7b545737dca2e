// top_k_cut: the K-th largest of the shares' largest values: at least K values reach it
// shapes: parts [2 n] as n pairs of (largest, sum); cut [2] (the border, the best); count [1]
// grid: one thread per share, which counts the shares before it
// limits: at least K shares, or one value a share
override WG_SIZE: u32 = 64u;
override K: u32 = 256u;
@group(0) @binding(0) var<storage, read> parts: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> cut: array<f32>;
@group(0) @binding(2) var<storage, read_write> count: array<u32>;

@compute @workgroup_size(WG_SIZE)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let part = wg.x * WG_SIZE + li;
  let n_pairs = arrayLength(&parts);
  if (part >= n_pairs * 2u) { return; }
  let pair = parts[part / 2u];
  let own = select(pair.x, pair.z, part % 2u == 1u);
  var rank = 0u;
  for (var i = 0u; i < n_pairs; i++) {
    let other = parts[i];
    rank += u32(other.x > own || (other.x == own && i * 2u < part));
    rank += u32(other.z > own || (other.z == own && i * 2u + 1u < part));
  }
  if (rank == min(K, n_pairs * 2u) - 1u) { cut[0] = own; }
  if (rank == 0u) {
    cut[1] = own;
    count[0] = 0u;
  }
}
