// top_k: the K best by rank (the lower id first on a tie) and the softmax's total in K sums
// shapes: parts, cut, count, found: see top_k_gather; y: count and 3 words, K (id, bits), K sums
// grid: one thread per place in found, which counts those before it
// limits: K sums of SUM_SHARE shares each; y is whole only if count fits found
// import lib/sample.wgsl
override WG_SIZE: u32 = 64u;
override K: u32 = 256u;
override SUM_SHARE: u32 = 1u;
@group(0) @binding(0) var<storage, read> parts: array<vec2<f32>>;
@group(0) @binding(2) var<storage, read> cut: array<f32>;
@group(0) @binding(3) var<storage, read> count: array<u32>;
@group(0) @binding(4) var<storage, read> found: array<vec2<u32>>;
@group(0) @binding(5) var<storage, read_write> y: array<u32>;

@compute @workgroup_size(WG_SIZE)
fn main(@builtin(workgroup_id) wg: vec3<u32>, @builtin(local_invocation_index) li: u32) {
  let i = wg.x * WG_SIZE + li;
  if (i == 0u) { y[0] = count[0]; }
  if (i < K) {
    var sum = 0.0;
    for (var p = i * SUM_SHARE; p < min((i + 1u) * SUM_SHARE, arrayLength(&parts)); p++) {
      sum += parts[p].y * weight(parts[p].x, cut[1]);
    }
    y[4u + 2u * K + i] = bitcast<u32>(sum);
  }
  let n_found = min(count[0], arrayLength(&found));
  if (i >= n_found) { return; }
  let own = bitcast<f32>(found[i].x);
  let id = found[i].y;
  var rank = 0u;
  for (var j = 0u; j < n_found; j++) {
    let v = bitcast<f32>(found[j].x);
    rank += u32(v > own || (v == own && found[j].y < id));
  }
  if (rank < K) {
    y[4u + 2u * rank] = id;
    y[5u + 2u * rank] = found[i].x;
  }
}
