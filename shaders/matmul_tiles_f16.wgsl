// matmul (tiles_f16): y[t, y_start + r] = dot(W[r, :], x[t, :]) + bias + residual
// shapes: x [n, N_COLS] and x_scale [n] of narrow_f16; the rest as in matmul_tiles
// grid: a workgroup of 64 computes 64 rows x 32 N_QUAD tokens; rows over x and y, z = tokens
// limits: sums of 16 columns in float16 (weights below 2000), of these in float32
//! const N_QUAD: u32 = 2u
//! needs shader-f16
// import lib/step.wgsl
// import quant as W
// import lib/put.wgsl
override N_COLS: u32 = 32u;
@group(0) @binding(0) var<storage, read> x: array<vec4<f16>>;
@group(0) @binding(1) var<storage, read> x_scale: array<f32>;
@group(0) @binding(2) var<storage, read> W_data: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read> residual: array<f32>;
@group(0) @binding(5) var<storage, read_write> y: array<f32>;
@group(0) @binding(6) var<uniform> params: Params;
@group(0) @binding(7) var<uniform> step: Step;
const N_TOKEN = N_QUAD * 32u;
// As in matmul_tiles, half as large.
var<workgroup> w_tile: array<vec4<f16>, 256>;
var<workgroup> x_tile: array<vec4<f16>, 4u * N_TOKEN>;

fn load_w(i: u32, li: u32) {
  let m = W_load16(i);
  w_tile[li] = vec4<f16>(m[0]);
  w_tile[64u + li] = vec4<f16>(m[1]);
  w_tile[128u + li] = vec4<f16>(m[2]);
  w_tile[192u + li] = vec4<f16>(m[3]);
}

fn load_x(t: u32, n: u32, g: u32, li: u32) {
  let n4 = N_COLS / 4u;
  for (var i = li; i < 4u * N_TOKEN; i += 64u) {
    let token = min(t + i / 4u, n - 1u);
    x_tile[(i % 4u) * N_TOKEN + i / 4u] = x[token * n4 + min(g * 4u + i % 4u, n4 - 1u)];
  }
}

// Four columns of four tokens.
fn x_at(c: u32, t: u32) -> mat4x4<f16> {
  let i = c * N_TOKEN + t;
  return mat4x4<f16>(x_tile[i], x_tile[i + 8u], x_tile[i + 16u], x_tile[i + 24u]);
}

struct Columns { a: mat4x4<f16>, b: mat4x4<f16>, c: mat4x4<f16>, d: mat4x4<f16> }

// 16 columns of a row times four tokens.
fn row(i: u32, x: Columns) -> vec4<f32> {
  return vec4<f32>(
    w_tile[i] * x.a + w_tile[64u + i] * x.b + w_tile[128u + i] * x.c + w_tile[192u + i] * x.d);
}

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>,
  @builtin(local_invocation_index) li: u32
) {
  let row0 = (wg.x + wg.y * grid.x) * 64u;
  let t0 = wg.z * N_TOKEN;
  let n = step.n_tokens;
  if (row0 >= N_ROWS || t0 >= n) { return; }
  let r = li % 8u;
  let t = li / 8u;
  let n_groups = (N_COLS + 15u) / 16u;
  let w_start = min(row0 + li, N_ROWS - 1u) * n_groups;
  var acc: array<vec4<f32>, 8u * N_QUAD>;  // [row, quad of tokens]
  for (var g = 0u; g < n_groups; g++) {
    load_w(w_start + g, li);
    load_x(t0, n, g, li);
    workgroupBarrier();
    for (var q = 0u; q < N_QUAD; q++) {
      let ti = q * 32u + t;
      let m = Columns(x_at(0u, ti), x_at(1u, ti), x_at(2u, ti), x_at(3u, ti));
      acc[q] += row(r, m);
      acc[N_QUAD + q] += row(r + 8u, m);
      acc[2u * N_QUAD + q] += row(r + 16u, m);
      acc[3u * N_QUAD + q] += row(r + 24u, m);
      acc[4u * N_QUAD + q] += row(r + 32u, m);
      acc[5u * N_QUAD + q] += row(r + 40u, m);
      acc[6u * N_QUAD + q] += row(r + 48u, m);
      acc[7u * N_QUAD + q] += row(r + 56u, m);
    }
    workgroupBarrier();
  }
  for (var q = 0u; q < N_QUAD; q++) {
    for (var j = 0u; j < 4u; j++) {
      let token = t0 + q * 32u + j * 8u + t;
      let scale = x_scale[min(token, n - 1u)];
      for (var i = 0u; i < 8u; i++) { put(token, row0 + i * 8u + r, n, acc[i * N_QUAD + q][j] * scale); }
    }
  }
}
