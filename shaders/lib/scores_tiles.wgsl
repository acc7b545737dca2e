// scores (tiles family): a tile's scores from what eight threads found of each quad of keys
// shapes: s_now [GROUP] private: this thread's share; gives those of query li / 16, quad li % 16
// grid: none (library); part of attend_group; 128 threads, every one must call
// limits: GROUP <= 4: 8.5 KiB of workgroup memory beside attend_group's
fn S_share(j0: u32, end: u32, li: u32) -> vec4<f32> {
  for (var g = 0u; g < GROUP; g++) { parts[g * 136u + (li % 8u) * 17u + li / 8u] = s_now[g]; }
  workgroupBarrier();
  let g = min(li / 16u, GROUP - 1u);
  let quad = li % 16u;
  var s = vec4<f32>(0.0);
  for (var i = 0u; i < 8u; i++) { s += parts[g * 136u + i * 17u + quad]; }
  let c = vec4<f32>(capped(s.x), capped(s.y), capped(s.z), capped(s.w));
  s = select(vec4<f32>(-3.0e38), c, seen4(j0 + quad * 4u, end));
  if (li < GROUP * 16u) { tops[li] = max(max(s.x, s.y), max(s.z, s.w)); }
  workgroupBarrier();
  return s;
}
