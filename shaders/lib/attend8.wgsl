// attend8: one thread's online softmax over eight keys at a time (rows family)
// shapes: q_now, acc [HEAD_DIM / 4] private; caches [n_ctx, N_HEAD_KV * D4] elements
// grid: none (library); the kernel declares k_cache, v_cache, q_now, acc and imports kv as C
// limits: positions outside first..last are masked; sentinel -3e38, no infinities
override SCALE: f32 = 1.0;
override SOFTCAP: f32 = 0.0;
var<private> q_now: array<vec4<f32>, D4>;
var<private> acc: array<vec4<f32>, D4>;
var<private> top: f32;
var<private> total: f32;

fn capped(dot_product: f32) -> f32 {
  let s = dot_product * SCALE;
  if (SOFTCAP == 0.0) { return s; }
  return SOFTCAP * tanh_safe(s / SOFTCAP);
}

fn masked(s: vec4<f32>, j: vec4<u32>, first: u32, last: u32) -> vec4<f32> {
  let seen = (j >= vec4<u32>(first)) & (j <= vec4<u32>(last));
  let c = vec4<f32>(capped(s.x), capped(s.y), capped(s.z), capped(s.w));
  return select(vec4<f32>(-3.0e38), c, seen);
}

// Keys j..j+7 of one kv head, whose elements start at kv; loads stay at or below end.
fn attend8(j: u32, kv: u32, row: u32, end: u32, first: u32, last: u32) {
  let b0 = kv + min(j, end) * row;
  let b1 = kv + min(j + 1u, end) * row;
  let b2 = kv + min(j + 2u, end) * row;
  let b3 = kv + min(j + 3u, end) * row;
  let b4 = kv + min(j + 4u, end) * row;
  let b5 = kv + min(j + 5u, end) * row;
  let b6 = kv + min(j + 6u, end) * row;
  let b7 = kv + min(j + 7u, end) * row;
  var s = vec4<f32>(0.0);
  var t = vec4<f32>(0.0);
  for (var d = 0u; d < D4; d++) {
    let q = q_now[d];
    s += vec4<f32>(
      dot(q, C_decode(k_cache[b0 + d])), dot(q, C_decode(k_cache[b1 + d])),
      dot(q, C_decode(k_cache[b2 + d])), dot(q, C_decode(k_cache[b3 + d])));
    t += vec4<f32>(
      dot(q, C_decode(k_cache[b4 + d])), dot(q, C_decode(k_cache[b5 + d])),
      dot(q, C_decode(k_cache[b6 + d])), dot(q, C_decode(k_cache[b7 + d])));
  }
  let at = vec4<u32>(j, j + 1u, j + 2u, j + 3u);
  s = masked(s, at, first, last);
  t = masked(t, at + 4u, first, last);
  let pair = max(s, t);
  let new_top = max(top, max(max(pair.x, pair.y), max(pair.z, pair.w)));
  let shrink = exp(max(top - new_top, -80.0));
  let floor_s = vec4<f32>(-1.0e38);
  let p = select(vec4<f32>(0.0), exp(max(s - new_top, vec4<f32>(-80.0))), s > floor_s);
  let r = select(vec4<f32>(0.0), exp(max(t - new_top, vec4<f32>(-80.0))), t > floor_s);
  top = new_top;
  total = total * shrink + dot(p, vec4<f32>(1.0)) + dot(r, vec4<f32>(1.0));
  for (var d = 0u; d < D4; d++) {
    acc[d] = acc[d] * shrink
      + p.x * C_decode(v_cache[b0 + d]) + p.y * C_decode(v_cache[b1 + d])
      + p.z * C_decode(v_cache[b2 + d]) + p.w * C_decode(v_cache[b3 + d])
      + r.x * C_decode(v_cache[b4 + d]) + r.y * C_decode(v_cache[b5 + d])
      + r.z * C_decode(v_cache[b6 + d]) + r.w * C_decode(v_cache[b7 + d]);
  }
}
