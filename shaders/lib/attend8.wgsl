// attend8: one thread's online softmax over eight keys at a time (rows family)
// shapes: q_now [D4], acc [V4] private; caches [n_ctx, N_HEAD_KV, D4] and [.., V4]
// grid: none (library); the kernel declares k_cache, v_cache, N_HEAD_KV and imports kv as C
// limits: positions outside first..last are masked; sentinel -3e38, no infinities
override SCALE: f32 = 1.0;
override SOFTCAP: f32 = 0.0;
var<private> q_now: array<vec4<f32>, D4>;
var<private> acc: array<vec4<f32>, V4>;
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

// Keys j..j+7 of one kv head; loads stay at or below end.
fn attend8(j: u32, head_kv: u32, end: u32, first: u32, last: u32) {
  let at = vec4<u32>(j, j + 1u, j + 2u, j + 3u);
  let near = min(at, vec4<u32>(end)) * N_HEAD_KV + head_kv;
  let far = min(at + 4u, vec4<u32>(end)) * N_HEAD_KV + head_kv;
  let k = near * D4;
  let l = far * D4;
  var s = vec4<f32>(0.0);
  var t = vec4<f32>(0.0);
  for (var d = 0u; d < D4; d++) {
    let q = q_now[d];
    s += vec4<f32>(
      dot(q, C_key(k.x + d)), dot(q, C_key(k.y + d)),
      dot(q, C_key(k.z + d)), dot(q, C_key(k.w + d)));
    t += vec4<f32>(
      dot(q, C_key(l.x + d)), dot(q, C_key(l.y + d)),
      dot(q, C_key(l.z + d)), dot(q, C_key(l.w + d)));
  }
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
  let v = near * V4;
  let w = far * V4;
  for (var d = 0u; d < V4; d++) {
    acc[d] = acc[d] * shrink
      + p.x * C_value(v.x + d) + p.y * C_value(v.y + d)
      + p.z * C_value(v.z + d) + p.w * C_value(v.w + d)
      + r.x * C_value(w.x + d) + r.y * C_value(w.y + d)
      + r.z * C_value(w.z + d) + r.w * C_value(w.w + d);
  }
}
