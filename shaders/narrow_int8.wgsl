// narrow_int8: activations as int8, 32 columns to a scale
// shapes: x [n, N_COLS]; codes [n, ceil(N_COLS / 32)] blocks of 32 bytes, x = code * scale; about: see main
// grid: one thread per block, folded over x and y
// limits: N_COLS % 4 == 0; columns past the row are 0; a NaN or infinity makes the block's scale one
// import lib/step.wgsl
// import lib/int8.wgsl
override WG_SIZE: u32 = 64u;
override N_COLS: u32 = 4u;
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> codes: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> about: array<vec4<f32>>;
@group(0) @binding(3) var<uniform> step: Step;

fn x_at(row: u32, c: u32) -> vec4<f32> {
  let n4 = N_COLS / 4u;
  return select(vec4<f32>(0.0), x[row * n4 + min(c, n4 - 1u)], c < n4);
}

fn x16(row: u32, c: u32) -> mat4x4<f32> {
  return mat4x4<f32>(x_at(row, c), x_at(row, c + 1u), x_at(row, c + 2u), x_at(row, c + 3u));
}

fn total(v: vec4<u32>) -> i32 {
  let ones = 0x01010101u;
  return dot4I8Packed(v.x, ones) + dot4I8Packed(v.y, ones) + dot4I8Packed(v.z, ones)
    + dot4I8Packed(v.w, ones);
}

@compute @workgroup_size(WG_SIZE)
fn main(
  @builtin(workgroup_id) wg: vec3<u32>, @builtin(num_workgroups) grid: vec3<u32>,
  @builtin(local_invocation_index) li: u32
) {
  let i = (wg.x + wg.y * grid.x) * WG_SIZE + li;
  let n_blocks = (N_COLS + 31u) / 32u;
  if (i >= step.n_tokens * n_blocks) { return; }
  let c = i % n_blocks * 8u;
  let a = x16(i / n_blocks, c);
  let b = x16(i / n_blocks, c + 4u);
  let scale = int8_scale(max(int8_top(a), int8_top(b)));
  let first = int8_codes(a, scale);
  let last = int8_codes(b, scale);
  codes[i * 2u] = first;
  codes[i * 2u + 1u] = last;
  // The scale, and the sums of the first and the last 16 values as they have become.
  about[i] = vec4<f32>(scale, f32(total(first)) * scale, f32(total(last)) * scale, 0.0);
}
