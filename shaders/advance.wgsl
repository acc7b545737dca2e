// advance: one greedy step forward: the most likely token becomes the input of the next step
// shapes: best [1]; input: the input slot (struct Step first, tokens at TOKENS_AT); ahead [n]
// grid: one thread
// limits: for plans of one token; input[3] (Step's count) is 0 when a run begins
override TOKENS_AT: u32 = 64u;
@group(0) @binding(0) var<storage, read> best: array<u32>;
@group(0) @binding(1) var<storage, read_write> input: array<u32>;
@group(0) @binding(2) var<storage, read_write> ahead: array<u32>;

@compute @workgroup_size(1)
fn main() {
  let done = input[3];
  if (done >= arrayLength(&ahead)) { return; }
  ahead[done] = best[0];
  input[TOKENS_AT] = select(best[0], 0u, best[0] == 0xffffffffu); // no number: the host stops
  input[1] += 1u;
  input[3] = done + 1u;
}
