// matmul (tiles family): y[t, y_start + r] = dot(W[r, :], x[t, :]) + bias + residual
// shapes: x [n, N_COLS]; W [N_ROWS, N_COLS], a chunk of a tensor; y, residual [n, Y_COLS]
// grid: a workgroup of 64 computes 64 rows x 32 tokens; rows folded over x and y, z = tokens / 32
// limits: N_COLS % 4 == 0; 12 KiB of workgroup memory; n is n_out with USE_N_OUT, else n_tokens
// import lib/step.wgsl
// import quant as W
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

// Both tiles lie column by column. Scalars, because storing one lane of a vector in workgroup
// memory may write the whole vector.
var<workgroup> w_tile: array<f32, 2048>;  // [32 columns, 64 rows]
var<workgroup> x_tile: array<f32, 1024>;  // [32 columns, 32 tokens]

fn load_w(row: u32, k: u32, li: u32) {
  let n_groups = (N_COLS + 15u) / 16u;
  for (var h = 0u; h < 2u; h++) {
    let g = k / 16u + h;
    var m = mat4x4<f32>();
    if (g < n_groups) { m = W_load16(row * n_groups + g); }
    for (var c = 0u; c < 16u; c++) { w_tile[(h * 16u + c) * 64u + li] = m[c / 4u][c % 4u]; }
  }
}

fn load_x(t: u32, n: u32, k: u32, li: u32) {
  let n4 = N_COLS / 4u;
  for (var i = li; i < 256u; i += 64u) {
    let c = i / 32u;
    let token = min(t + i % 32u, n - 1u);
    let v = x[token * n4 + min(k / 4u + c, n4 - 1u)];
    let at = c * 128u + i % 32u;
    x_tile[at] = v.x;
    x_tile[at + 32u] = v.y;
    x_tile[at + 64u] = v.z;
    x_tile[at + 96u] = v.w;
  }
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

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>,
  @builtin(local_invocation_index) li: u32
) {
  let row0 = (wg.x + wg.y * grid.x) * 64u;
  let t0 = wg.z * 32u;
  let n = select(step.n_tokens, step.n_out, USE_N_OUT != 0u);
  if (row0 >= N_ROWS || t0 >= n) { return; }
  // This thread: rows r..r+3 and r+32..r+35, tokens t..t+3.
  let r = (li % 8u) * 4u;
  let t = (li / 8u) * 4u;
  var low = mat4x4<f32>();   // [token][row]
  var high = mat4x4<f32>();
  for (var k = 0u; k < N_COLS; k += 32u) {
    load_w(min(row0 + li, N_ROWS - 1u), k, li);
    load_x(t0, n, k, li);
    workgroupBarrier();
    for (var c = 0u; c < 32u; c++) {
      let wi = c * 64u + r;
      let a = vec4<f32>(w_tile[wi], w_tile[wi + 1u], w_tile[wi + 2u], w_tile[wi + 3u]);
      let b = vec4<f32>(w_tile[wi + 32u], w_tile[wi + 33u], w_tile[wi + 34u], w_tile[wi + 35u]);
      let xi = c * 32u + t;
      low[0] += a * x_tile[xi];
      high[0] += b * x_tile[xi];
      low[1] += a * x_tile[xi + 1u];
      high[1] += b * x_tile[xi + 1u];
      low[2] += a * x_tile[xi + 2u];
      high[2] += b * x_tile[xi + 2u];
      low[3] += a * x_tile[xi + 3u];
      high[3] += b * x_tile[xi + 3u];
    }
    workgroupBarrier();
  }
  for (var j = 0u; j < 4u; j++) {
    put(t0 + t + j, row0 + r, n, low[j]);
    put(t0 + t + j, row0 + r + 32u, n, high[j]);
  }
}
