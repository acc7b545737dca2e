// expert_matmul (rows family): y[s, r] = dot(W[e, r, :], x[s, :]) + bias[e, r], e = experts[s]
// shapes: x [n or n * N_USED, N_COLS]; groups as in expert_group; W: see lib/slot; y [n * N_USED, N_ROWS]
// grid: one thread per 4 rows and 8 slots of one expert; rows over x and y, z = tile; no barriers
// limits: N_COLS % 4 == 0; writes the rows that lie in this chunk
// import quant as W
// import lib/dot4.wgsl as W
// import lib/input_plain.wgsl
// import lib/slot.wgsl
override WG_SIZE: u32 = 16u;
override N_COLS: u32 = 32u;
override N_USED: u32 = 1u;
override N_TILES: u32 = 1u;
override OWN_X: u32 = 0u;
override HAS_BIAS: u32 = 0u;
struct Params { row_start: u32 }
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> groups: array<u32>;
@group(0) @binding(2) var<storage, read> W_data: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;
@group(0) @binding(5) var<uniform> params: Params;

struct Rows { r0: mat4x4<f32>, r1: mat4x4<f32>, r2: mat4x4<f32>, r3: mat4x4<f32> }

fn mac(w: Rows, start: u32, g: u32) -> vec4<f32> {
  x_start = start;
  let v = X_load16(g);
  return vec4<f32>(
    dot(w.r0[0], v[0]) + dot(w.r0[1], v[1]) + dot(w.r0[2], v[2]) + dot(w.r0[3], v[3]),
    dot(w.r1[0], v[0]) + dot(w.r1[1], v[1]) + dot(w.r1[2], v[2]) + dot(w.r1[3], v[3]),
    dot(w.r2[0], v[0]) + dot(w.r2[1], v[1]) + dot(w.r2[2], v[2]) + dot(w.r2[3], v[3]),
    dot(w.r3[0], v[0]) + dot(w.r3[1], v[1]) + dot(w.r3[2], v[2]) + dot(w.r3[3], v[3]));
}

fn x_of(slot: u32) -> u32 {
  return select(slot / N_USED, slot, OWN_X != 0u) * (N_COLS / 4u);
}

fn put(k: u32, count: u32, slot: u32, expert: u32, row: u32, sum: vec4<f32>) {
  if (k >= count) { return; }
  for (var r = 0u; r < 4u; r++) {
    if (row + r >= N_ROWS) { return; }
    var v = sum[r];
    if (HAS_BIAS != 0u) { v += bias[expert * N_ROWS + row + r]; }
    y[slot * N_ROWS + row + r] = v;
  }
}

@compute @workgroup_size(WG_SIZE)
fn main(
  @builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>,
  @builtin(local_invocation_index) li: u32
) {
  let row = ((wg.x + wg.y * grid.x) * WG_SIZE + li) * 4u;
  let expert = min(groups[wg.z * 4u], N_EXPERT - 1u);
  let count = groups[wg.z * 4u + 2u];
  let span = span_of(expert, row, params.row_start);
  if (count == 0u || !span.is_inside) { return; }
  let at = W_rows(span.first, span.end);
  // Slots past the last repeat it; their sums are not written.
  let list = N_TILES * 4u + groups[wg.z * 4u + 1u];
  let last = count - 1u;
  let s0 = groups[list];
  let s1 = groups[list + min(1u, last)];
  let s2 = groups[list + min(2u, last)];
  let s3 = groups[list + min(3u, last)];
  let s4 = groups[list + min(4u, last)];
  let s5 = groups[list + min(5u, last)];
  let s6 = groups[list + min(6u, last)];
  let s7 = groups[list + min(7u, last)];
  let n_groups = (N_COLS + 15u) / 16u;
  var a0 = vec4<f32>(0.0); var a1 = vec4<f32>(0.0); var a2 = vec4<f32>(0.0);
  var a3 = vec4<f32>(0.0); var a4 = vec4<f32>(0.0); var a5 = vec4<f32>(0.0);
  var a6 = vec4<f32>(0.0); var a7 = vec4<f32>(0.0);
  for (var g = 0u; g < n_groups; g++) {
    let w = Rows(W_load16(at.x + g), W_load16(at.y + g), W_load16(at.z + g), W_load16(at.w + g));
    a0 += mac(w, x_of(s0), g);
    if (count > 1u) { a1 += mac(w, x_of(s1), g); }
    if (count > 2u) {
      a2 += mac(w, x_of(s2), g);
      a3 += mac(w, x_of(s3), g);
    }
    if (count > 4u) {
      a4 += mac(w, x_of(s4), g);
      a5 += mac(w, x_of(s5), g);
      a6 += mac(w, x_of(s6), g);
      a7 += mac(w, x_of(s7), g);
    }
  }
  put(0u, count, s0, expert, row, a0); put(1u, count, s1, expert, row, a1);
  put(2u, count, s2, expert, row, a2); put(3u, count, s3, expert, row, a3);
  put(4u, count, s4, expert, row, a4); put(5u, count, s5, expert, row, a5);
  put(6u, count, s6, expert, row, a6); put(7u, count, s7, expert, row, a7);
}
