// matmul (tiles_int8): y[t, y_start + r] = dot(W[r, :], x[t, :]) + bias + residual, in int8 products
// shapes: x [n, blocks of 32 columns] and about of narrow_int8; the rest as in matmul_tiles
// grid: a workgroup of 64 computes 64 rows x 32 N_QUAD tokens; rows over x and y, z = tokens
// limits: weights are int8 codes (see codes) with scales per row and 16 columns; sums of 16 are exact
//! const N_QUAD: u32 = 2u
// import lib/step.wgsl
// import codes as W
// import lib/put.wgsl
// import lib/int8.wgsl
override N_COLS: u32 = 32u;
@group(0) @binding(0) var<storage, read> x: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> about: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> Q_data: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read> residual: array<f32>;
@group(0) @binding(5) var<storage, read_write> y: array<f32>;
@group(0) @binding(6) var<uniform> params: Params;
@group(0) @binding(7) var<uniform> step: Step;
const N_TOKEN = N_QUAD * 32u;
// 16 columns to a vector, [half of the block, row or token]: neighbours touch neighbouring vectors.
var<workgroup> w_tile: array<vec4<u32>, 128>;
var<workgroup> w_scales: array<vec4<f32>, 64>;  // of both halves, and what their values lie above
var<workgroup> x_tile: array<vec4<u32>, 2u * N_TOKEN>;
var<workgroup> x_about: array<vec4<f32>, N_TOKEN>;

fn load_w(start: u32, block: u32, li: u32) {
  let g = block * 2u;
  let c = W_codes32(start + g, g + 1u < (N_COLS + 15u) / 16u);
  w_tile[li] = c.a;
  w_tile[64u + li] = c.b;
  w_scales[li] = vec4<f32>(c.scales, c.lows);
}

fn load_x(t: u32, n: u32, block: u32, li: u32) {
  let n_blocks = (N_COLS + 31u) / 32u;
  for (var i = li; i < N_TOKEN; i += 64u) {
    let at = min(t + i, n - 1u) * n_blocks + block;
    x_tile[i] = x[at * 2u];
    x_tile[N_TOKEN + i] = x[at * 2u + 1u];
    x_about[i] = about[at];
  }
}

struct Token { a: vec4<u32>, b: vec4<u32> }

fn token_at(i: u32) -> Token { return Token(x_tile[i], x_tile[N_TOKEN + i]); }

fn about_at(i: u32) -> mat3x4<f32> {
  let a = x_about[i];
  let b = x_about[i + 8u];
  let c = x_about[i + 16u];
  let d = x_about[i + 24u];
  return mat3x4<f32>(a.x, b.x, c.x, d.x, a.y, b.y, c.y, d.y, a.z, b.z, c.z, d.z);
}

fn dot16(w: vec4<u32>, x: vec4<u32>) -> i32 {
  return dot4I8Packed(w.x, x.x) + dot4I8Packed(w.y, x.y) + dot4I8Packed(w.z, x.z)
    + dot4I8Packed(w.w, x.w);
}

// Four tokens; about: their scales, and the sums of their two halves.
struct Tokens { t0: Token, t1: Token, t2: Token, t3: Token, about: mat3x4<f32> }

// 32 columns of a row times four tokens.
fn row(i: u32, x: Tokens) -> vec4<f32> {
  let a = w_tile[i];
  let b = w_tile[64u + i];
  let s = w_scales[i];
  let first = vec4<i32>(dot16(a, x.t0.a), dot16(a, x.t1.a), dot16(a, x.t2.a), dot16(a, x.t3.a));
  let last = vec4<i32>(dot16(b, x.t0.b), dot16(b, x.t1.b), dot16(b, x.t2.b), dot16(b, x.t3.b));
  let sum = (vec4<f32>(first) * s.x + vec4<f32>(last) * s.y) * x.about[0];
  if (W_LOW == 0u) { return sum; }
  return sum + x.about[1] * s.z + x.about[2] * s.w;
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
  let w_start = min(row0 + li, N_ROWS - 1u) * ((N_COLS + 15u) / 16u);
  var acc: array<vec4<f32>, 8u * N_QUAD>;  // [row, quad of tokens]
  for (var block = 0u; block < (N_COLS + 31u) / 32u; block++) {
    load_w(w_start, block, li);
    load_x(t0, n, block, li);
    workgroupBarrier();
    for (var q = 0u; q < N_QUAD; q++) {
      let i = q * 32u + t;
      let m = Tokens(
        token_at(i), token_at(i + 8u), token_at(i + 16u), token_at(i + 24u), about_at(i));
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
  for (var i = 0u; i < 8u; i++) {
    for (var q = 0u; q < N_QUAD; q++) {
      for (var j = 0u; j < 4u; j++) {
        put(t0 + q * 32u + j * 8u + t, row0 + i * 8u + r, n, acc[i * N_QUAD + q][j]);
      }
    }
  }
}
