// expert_group: slots sorted by expert, cut into tiles of at most TILE slots of one expert
// shapes: experts [n, N_USED]; groups: N_TILES of (expert, first, count, 0), then n * N_USED slots
// grid: one workgroup
// limits: slots of one expert come in any order; tiles past the last have count 0
// import lib/step.wgsl
override WG_SIZE: u32 = 64u;
override N_EXPERT: u32 = 1u;
override N_USED: u32 = 1u;
override TILE: u32 = 8u;
override N_TILES: u32 = 1u;
override USE_N_OUT: u32 = 0u;
@group(0) @binding(0) var<storage, read> experts: array<u32>;
@group(0) @binding(1) var<storage, read_write> groups: array<u32>;
@group(0) @binding(2) var<uniform> step: Step;
var<workgroup> counts: array<atomic<u32>, N_EXPERT>;
var<workgroup> placed: array<atomic<u32>, N_EXPERT>;
var<workgroup> firsts: array<u32, N_EXPERT>;

fn put(tile: u32, expert: u32, first: u32, count: u32) {
  groups[tile * 4u] = expert;
  groups[tile * 4u + 1u] = first;
  groups[tile * 4u + 2u] = count;
}

@compute @workgroup_size(WG_SIZE)
fn main(@builtin(local_invocation_index) li: u32) {
  let n = select(step.n_tokens, step.n_out, USE_N_OUT != 0u) * N_USED;
  // Cleared here: lavapipe's workgroup memory starts as the last kernel left it.
  for (var e = li; e < N_EXPERT; e += WG_SIZE) {
    atomicStore(&counts[e], 0u);
    atomicStore(&placed[e], 0u);
  }
  workgroupBarrier();
  for (var i = li; i < n; i += WG_SIZE) { atomicAdd(&counts[min(experts[i], N_EXPERT - 1u)], 1u); }
  workgroupBarrier();
  for (var e = li; e < N_EXPERT; e += WG_SIZE) {
    var first = 0u;
    var tile = 0u;
    for (var k = 0u; k < e; k++) {
      let count = atomicLoad(&counts[k]);
      first += count;
      tile += (count + TILE - 1u) / TILE;
    }
    firsts[e] = first;
    let count = atomicLoad(&counts[e]);
    for (var done = 0u; done < count; done += TILE) {
      put(tile, e, first + done, min(TILE, count - done));
      tile++;
    }
    if (e == N_EXPERT - 1u) {
      for (; tile < N_TILES; tile++) { put(tile, 0u, 0u, 0u); }
    }
  }
  workgroupBarrier();
  for (var i = li; i < n; i += WG_SIZE) {
    let e = min(experts[i], N_EXPERT - 1u);
    groups[N_TILES * 4u + firsts[e] + atomicAdd(&placed[e], 1u)] = i;
  }
}
