// scores (subgroups family): as scores_tiles, eight threads adding up by shuffles: one barrier less
// shapes: s_now [GROUP] private: this thread's share; gives those of query li / 16, quad li % 16
// grid: none (library); part of attend_group; 128 threads, every one must call
// limits: no subgroup below 8 threads; neighbours in the workgroup are neighbours in a subgroup
//! needs subgroups
var<workgroup> S_scores: array<f32, GROUP * 64u>;  // [query, key]

// The sum over eight threads, of the key li % 4 of their quad.
fn S_sum(v: vec4<f32>, li: u32) -> f32 {
  let odd = (li & 1u) != 0u;
  let two = select(v.xz, v.yw, odd) + subgroupShuffleXor(select(v.yw, v.xz, odd), 1u);
  let high = (li & 2u) != 0u;
  let one = select(two.x, two.y, high) + subgroupShuffleXor(select(two.y, two.x, high), 2u);
  return one + subgroupShuffleXor(one, 4u);
}

fn S_share(j0: u32, end: u32, li: u32) -> vec4<f32> {
  let key = li / 8u * 4u + li % 4u;
  for (var g = 0u; g < GROUP; g++) {
    let s = select(-3.0e38, capped(S_sum(s_now[g], li)), j0 + key < end);
    var best = max(s, subgroupShuffleXor(s, 1u));
    best = max(best, subgroupShuffleXor(best, 2u));
    if (li % 8u < 4u) { S_scores[g * 64u + key] = s; }
    if (li % 8u == 0u) { tops[g * 16u + li / 8u] = best; }
  }
  workgroupBarrier();
  // Nobody writes here again before the barrier that ends the softmax.
  let at = min(li / 16u, GROUP - 1u) * 64u + li % 16u * 4u;
  return vec4<f32>(S_scores[at], S_scores[at + 1u], S_scores[at + 2u], S_scores[at + 3u]);
}
