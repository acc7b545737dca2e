// attend_group: tiles of 64 keys of one kv head against the GROUP queries that share it
// shapes: q_now, k_now [.., D4] workgroup; caches [n_ctx, N_HEAD_KV, D4] and [.., V4]
// grid: none (library); the kernel declares k_cache and v_cache, imports kv as C, scores as S; 128 threads
// limits: D4, V4 <= 128, GROUP * D4 <= 256 and GROUP <= 4: 15.2 KiB of workgroup memory
override SCALE: f32 = 1.0;
override SOFTCAP: f32 = 0.0;
var<workgroup> q_now: array<vec4<f32>, GROUP * D4>;
var<workgroup> parts: array<vec4<f32>, GROUP * 136u>;   // [query, eighth of the columns, quad + 1]
var<workgroup> weights: array<vec4<f32>, GROUP * 16u>;  // [query, quad of keys]
var<workgroup> tops: array<f32, GROUP * 16u + 32u>;
var<workgroup> shrinks: array<f32, GROUP>;
var<private> acc: array<vec4<f32>, GROUP>;
var<private> top: f32;
var<private> total: f32;
var<private> s_now: array<vec4<f32>, GROUP>;

fn capped(dot_product: f32) -> f32 {
  let s = dot_product * SCALE;
  if (SOFTCAP == 0.0) { return s; }
  return SOFTCAP * tanh_safe(s / SOFTCAP);
}

fn sum16(i: u32) -> f32 {
  var sum = 0.0;
  for (var k = 0u; k < 16u; k++) { sum += tops[i * 16u + k]; }
  return sum;
}

// Where the heads of four positions lie, counted in heads.
fn heads_at(j: u32, end: u32, head_kv: u32) -> vec4<u32> {
  let rows = min(vec4<u32>(j) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(end - 1u));
  return rows * N_HEAD_KV + head_kv;
}

// Four keys from j on; this thread takes every eighth column from lane on.
fn score(j: u32, end: u32, head_kv: u32, lane: u32) {
  let at = heads_at(j, end, head_kv) * D4;
  for (var g = 0u; g < GROUP; g++) { s_now[g] = vec4<f32>(0.0); }
  for (var d = lane; d < D4; d += 8u) {
    let k0 = C_key(at.x + d);
    let k1 = C_key(at.y + d);
    let k2 = C_key(at.z + d);
    let k3 = C_key(at.w + d);
    for (var g = 0u; g < GROUP; g++) {
      let q = q_now[g * D4 + d];
      s_now[g] += vec4<f32>(dot(q, k0), dot(q, k1), dot(q, k2), dot(q, k3));
    }
  }
}

fn seen4(j: u32, end: u32) -> vec4<bool> {
  return vec4<u32>(j) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(end);
}

// A column of the values of every n_share-th quad; each value is read once for all queries.
fn add_values(j0: u32, end: u32, head_kv: u32, column: u32, share: u32, n_share: u32) {
  for (var g = 0u; g < GROUP; g++) { acc[g] *= shrinks[g]; }
  for (var quad = share; quad < 16u && j0 + quad * 4u < end; quad += n_share) {
    let at = heads_at(j0 + quad * 4u, end, head_kv) * V4 + column;
    let v0 = C_value(at.x);
    let v1 = C_value(at.y);
    let v2 = C_value(at.z);
    let v3 = C_value(at.w);
    for (var g = 0u; g < GROUP; g++) {
      let p = weights[g * 16u + quad];
      acc[g] += p.x * v0 + p.y * v1 + p.z * v2 + p.w * v3;
    }
  }
}

// One tile: thread li is (query, quad) in the softmax and (share, column) in the sums.
fn attend_tile(j0: u32, end: u32, head_kv: u32, li: u32) {
  score(j0 + li / 8u * 4u, end, head_kv, li % 8u);
  let s = S_share(j0, end, li);
  let g = min(li / 16u, GROUP - 1u);
  let quad = li % 16u;
  let is_soft = li < GROUP * 16u;
  let seen = seen4(j0 + quad * 4u, end);
  var new_top = top;
  for (var i = 0u; i < 16u; i++) { new_top = max(new_top, tops[g * 16u + i]); }
  let p = select(vec4<f32>(0.0), exp(max(s - new_top, vec4<f32>(-80.0))), seen);
  let shrink = exp(max(top - new_top, -80.0));
  total = total * shrink + dot(p, vec4<f32>(1.0));
  top = new_top;
  if (is_soft) { weights[li] = p; }
  if (is_soft && quad == 0u) { shrinks[g] = shrink; }
  workgroupBarrier();
  let n_share = 128u / V4;
  if (li / V4 < n_share) { add_values(j0, end, head_kv, li % V4, li / V4, n_share); }
}
