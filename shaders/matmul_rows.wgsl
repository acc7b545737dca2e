// matmul (rows family): y[t, y_start + r] = dot(W[r, :], x[t, :]) + bias + residual
// shapes: x [n, N_COLS]; W [N_ROWS, N_COLS], a chunk of a tensor; y, residual [n, Y_COLS]
// grid: one thread per 4 rows and 8 tokens; rows folded over x and y, z = tokens / 8; no barriers
// limits: N_COLS % 4 == 0; n is n_out with USE_N_OUT, else n_tokens
// import lib/step.wgsl
// import quant as W
override WG_SIZE: u32 = 16u;
override N_ROWS: u32 = 1u;
override N_COLS: u32 = 32u;
override Y_COLS: u32 = 1u;
override USE_N_OUT: u32 = 0u;
override HAS_BIAS: u32 = 0u;
override HAS_RESIDUAL: u32 = 0u;
struct Params { row_start: u32, y_start: u32 }
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> W_data: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> bias: array<f32>;
@group(0) @binding(3) var<storage, read> residual: array<f32>;
@group(0) @binding(4) var<storage, read_write> y: array<f32>;
@group(0) @binding(5) var<uniform> params: Params;
@group(0) @binding(6) var<uniform> step: Step;

struct Rows { r0: mat4x4<f32>, r1: mat4x4<f32>, r2: mat4x4<f32>, r3: mat4x4<f32> }

// 16 columns of four rows against one token; i: where the token's columns start, n: how many fours.
fn mac(w: Rows, i: u32, last: u32) -> vec4<f32> {
  let a = x[i];
  let b = x[min(i + 1u, last)];
  let c = x[min(i + 2u, last)];
  let d = x[min(i + 3u, last)];
  return vec4<f32>(
    dot(w.r0[0], a) + dot(w.r0[1], b) + dot(w.r0[2], c) + dot(w.r0[3], d),
    dot(w.r1[0], a) + dot(w.r1[1], b) + dot(w.r1[2], c) + dot(w.r1[3], d),
    dot(w.r2[0], a) + dot(w.r2[1], b) + dot(w.r2[2], c) + dot(w.r2[3], d),
    dot(w.r3[0], a) + dot(w.r3[1], b) + dot(w.r3[2], c) + dot(w.r3[3], d));
}

fn put(t: u32, row: u32, n: u32, sum: vec4<f32>) {
  if (t >= n) { return; }
  let base = t * Y_COLS + params.y_start + row;
  for (var r = 0u; r < 4u; r++) {
    if (row + r >= N_ROWS) { return; }
    var v = sum[r];
    if (HAS_BIAS != 0u) { v += bias[params.row_start + row + r]; }
    if (HAS_RESIDUAL != 0u) { v += residual[base + r]; }
    y[base + r] = v;
  }
}

@compute @workgroup_size(WG_SIZE)
fn main(
  @builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>,
  @builtin(local_invocation_index) li: u32
) {
  let row = ((wg.x + wg.y * grid.x) * WG_SIZE + li) * 4u;
  let t = wg.z * 8u;
  let n = select(step.n_tokens, step.n_out, USE_N_OUT != 0u);
  if (row >= N_ROWS || t >= n) { return; }
  let n_groups = (N_COLS + 15u) / 16u;
  let last = N_ROWS - 1u;
  let r0 = row * n_groups;
  let r1 = min(row + 1u, last) * n_groups;
  let r2 = min(row + 2u, last) * n_groups;
  let r3 = min(row + 3u, last) * n_groups;
  let n4 = N_COLS / 4u;
  let x0 = t * n4;
  // Tokens past the last repeat it; their sums are not written.
  let x1 = min(t + 1u, n - 1u) * n4;
  let x2 = min(t + 2u, n - 1u) * n4;
  let x3 = min(t + 3u, n - 1u) * n4;
  let x4 = min(t + 4u, n - 1u) * n4;
  let x5 = min(t + 5u, n - 1u) * n4;
  let x6 = min(t + 6u, n - 1u) * n4;
  let x7 = min(t + 7u, n - 1u) * n4;
  let end = n4 - 1u;
  var a0 = vec4<f32>(0.0); var a1 = vec4<f32>(0.0); var a2 = vec4<f32>(0.0);
  var a3 = vec4<f32>(0.0); var a4 = vec4<f32>(0.0); var a5 = vec4<f32>(0.0);
  var a6 = vec4<f32>(0.0); var a7 = vec4<f32>(0.0);
  if (t + 1u == n) {
    // A lone last token, such as the one whose logits a prefill wants.
    for (var g = 0u; g < n_groups; g++) {
      let w = Rows(W_load16(r0 + g), W_load16(r1 + g), W_load16(r2 + g), W_load16(r3 + g));
      a0 += mac(w, x0 + g * 4u, x0 + end);
    }
    put(t, row, n, a0);
    return;
  }
  for (var g = 0u; g < n_groups; g++) {
    let w = Rows(W_load16(r0 + g), W_load16(r1 + g), W_load16(r2 + g), W_load16(r3 + g));
    let c = g * 4u;
    a0 += mac(w, x0 + c, x0 + end);
    a1 += mac(w, x1 + c, x1 + end);
    a2 += mac(w, x2 + c, x2 + end);
    a3 += mac(w, x3 + c, x3 + end);
    a4 += mac(w, x4 + c, x4 + end);
    a5 += mac(w, x5 + c, x5 + end);
    a6 += mac(w, x6 + c, x6 + end);
    a7 += mac(w, x7 + c, x7 + end);
  }
  put(t, row, n, a0); put(t + 1u, row, n, a1); put(t + 2u, row, n, a2); put(t + 3u, row, n, a3);
  put(t + 4u, row, n, a4); put(t + 5u, row, n, a5); put(t + 6u, row, n, a6); put(t + 7u, row, n, a7);
}
