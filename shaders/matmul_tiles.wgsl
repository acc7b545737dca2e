// matmul (tiles family): y[t, y_start + r] = dot(W[r, :], x[t, :]) + bias + residual
// shapes: x [n, N_COLS]; W [N_ROWS, N_COLS], a chunk of a tensor; y, residual [n, Y_COLS]
// grid: a workgroup of 64 computes 64 rows x 32 N_QUAD tokens; rows over x and y, z = tokens
// limits: N_COLS % 4 == 0; 4 + 2 N_QUAD KiB of workgroup memory; n is n_out with USE_N_OUT
//! const N_QUAD: u32 = 2u
// import lib/step.wgsl
// import quant as W
// import lib/put.wgsl
override N_COLS: u32 = 32u;
override USE_N_OUT: u32 = 0u;
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> W_data: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> bias: array<f32>;
@group(0) @binding(3) var<storage, read> residual: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;
@group(0) @binding(5) var<uniform> params: Params;
@group(0) @binding(6) var<uniform> step: Step;
const N_TOKEN = N_QUAD * 32u;
// Four columns to a vector, [quarter of 16 columns, row or token]: neighbouring threads store and
// read neighbouring vectors, and a vector is stored whole.
var<workgroup> w_tile: array<vec4<f32>, 256>;
var<workgroup> x_tile: array<vec4<f32>, 4u * N_TOKEN>;

fn load_w(i: u32, li: u32) {
  let m = W_load16(i);
  w_tile[li] = m[0];
  w_tile[64u + li] = m[1];
  w_tile[128u + li] = m[2];
  w_tile[192u + li] = m[3];
}

fn load_x(t: u32, n: u32, g: u32, li: u32) {
  let n4 = N_COLS / 4u;
  for (var i = li; i < 4u * N_TOKEN; i += 64u) {
    // Four neighbouring threads read the 64 bytes of one token.
    let token = min(t + i / 4u, n - 1u);
    x_tile[(i % 4u) * N_TOKEN + i / 4u] = x[token * n4 + min(g * 4u + i % 4u, n4 - 1u)];
  }
}

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>,
  @builtin(local_invocation_index) li: u32
) {
  let row0 = (wg.x + wg.y * grid.x) * 64u;
  let t0 = wg.z * N_TOKEN;
  let n = select(step.n_tokens, step.n_out, USE_N_OUT != 0u);
  if (row0 >= N_ROWS || t0 >= n) { return; }
  // This thread: rows r + 8 i and tokens t + 8 j, so that neighbours differ by one vector.
  let r = li % 8u;
  let t = li / 8u;
  let n_groups = (N_COLS + 15u) / 16u;
  let w_start = min(row0 + li, N_ROWS - 1u) * n_groups;
  var acc: array<vec4<f32>, 8u * N_QUAD>;  // [row, quad of tokens]
  for (var g = 0u; g < n_groups; g++) {
    load_w(w_start + g, li);
    load_x(t0, n, g, li);
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
        let xi = c * N_TOKEN + q * 32u + t;
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
    workgroupBarrier();
  }
  for (var i = 0u; i < 8u; i++) {
    for (var q = 0u; q < N_QUAD; q++) {
      for (var j = 0u; j < 4u; j++) {
        put(t0 + q * 32u + j * 8u + t, row0 + i * 8u + r, n, acc[i * N_QUAD + q][j]);
      }
    }
  }
}
