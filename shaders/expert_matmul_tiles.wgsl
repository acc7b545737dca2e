// expert_matmul (tiles family): y[s, r] = dot(W[e, r, :], x[s, :]) + bias[e, r], e = experts[s]
// shapes: x [n or n * N_USED, N_COLS]; groups as in expert_group; W: see lib/slot; y [n * N_USED, N_ROWS]
// grid: a workgroup of 64 computes 64 rows of one expert x 32 N_QUAD slots; rows over x and y, z = tile
// limits: N_COLS % 4 == 0; 4 + 2 N_QUAD KiB of workgroup memory; writes the rows in this chunk
//! const N_QUAD: u32 = 4u
// import quant as W
// import lib/slot.wgsl
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
const N_SLOT = N_QUAD * 32u;
// As in matmul_tiles: four columns to a vector, [quarter of 16 columns, row or slot].
var<workgroup> w_tile: array<vec4<f32>, 256>;
var<workgroup> x_tile: array<vec4<f32>, 4u * N_SLOT>;

fn load_w(i: u32, li: u32) {
  let m = W_load16(i);
  w_tile[li] = m[0];
  w_tile[64u + li] = m[1];
  w_tile[128u + li] = m[2];
  w_tile[192u + li] = m[3];
}

fn load_x(list: u32, count: u32, g: u32, li: u32) {
  let n4 = N_COLS / 4u;
  // Whole quads of 32 slots, as many as are computed.
  for (var i = li; i < (count + 31u) / 32u * 128u; i += 64u) {
    let slot = groups[list + min(i / 4u, count - 1u)];
    let token = select(slot / N_USED, slot, OWN_X != 0u);
    x_tile[(i % 4u) * N_SLOT + i / 4u] = x[token * n4 + min(g * 4u + i % 4u, n4 - 1u)];
  }
}

fn put(slot: u32, expert: u32, row: u32, row_end: u32, sum: f32) {
  if (row >= row_end) { return; }
  var v = sum;
  if (HAS_BIAS != 0u) { v += bias[expert * N_ROWS + row]; }
  y[slot * N_ROWS + row] = v;
}

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>,
  @builtin(local_invocation_index) li: u32
) {
  let row0 = (wg.x + wg.y * grid.x) * 64u;
  // Read by one address of the workgroup: the barriers below depend on it.
  let expert = min(groups[wg.z * 4u], N_EXPERT - 1u);
  let count = groups[wg.z * 4u + 2u];
  let list = N_TILES * 4u + groups[wg.z * 4u + 1u];
  let n_groups = (N_COLS + 15u) / 16u;
  let span = span_of(expert, row0, params.row_start);
  let n_steps = select(0u, n_groups, count > 0u && span.is_inside);
  let w_start = min(span.first + li, span.end - 1u) * n_groups;
  let r = li % 8u;
  let t = li / 8u;
  var acc: array<vec4<f32>, 8u * N_QUAD>;  // [row, quad of slots]
  for (var g = 0u; g < n_steps; g++) {
    load_w(w_start + g, li);
    load_x(list, count, g, li);
    workgroupBarrier();
    for (var c = 0u; c < 4u; c++) {
      let wi = c * 64u + r;
      let w0 = w_tile[wi];
      let w1 = w_tile[wi + 8u];
      let w2 = w_tile[wi + 16u];
      let w3 = w_tile[wi + 24u];
      let w4 = w_tile[wi + 32u];
      let w5 = w_tile[wi + 40u];
      let w6 = w_tile[wi + 48u];
      let w7 = w_tile[wi + 56u];
      for (var q = 0u; q < N_QUAD; q++) {
        if (q * 32u < count) {
          let xi = c * N_SLOT + q * 32u + t;
          let m = mat4x4<f32>(x_tile[xi], x_tile[xi + 8u], x_tile[xi + 16u], x_tile[xi + 24u]);
          acc[q] += w0 * m;
          acc[N_QUAD + q] += w1 * m;
          acc[2u * N_QUAD + q] += w2 * m;
          acc[3u * N_QUAD + q] += w3 * m;
          acc[4u * N_QUAD + q] += w4 * m;
          acc[5u * N_QUAD + q] += w5 * m;
          acc[6u * N_QUAD + q] += w6 * m;
          acc[7u * N_QUAD + q] += w7 * m;
        }
      }
    }
    workgroupBarrier();
  }
  if (n_steps == 0u) { return; }
  let row_end = row0 + min(64u, span.end - span.first);
  for (var q = 0u; q < N_QUAD; q++) {
    for (var j = 0u; j < 4u; j++) {
      let k = q * 32u + j * 8u + t;
      if (k < count) {
        let slot = groups[list + k];
        for (var i = 0u; i < 8u; i++) {
          put(slot, expert, row0 + i * 8u + r, row_end, acc[i * N_QUAD + q][j]);
        }
      }
    }
  }
}
