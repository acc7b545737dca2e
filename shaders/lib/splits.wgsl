// splits: which keys of a decoded token's past each of N_SPLIT workgroups attends to
// shapes: keys first_key()..pos-1; the token itself goes with the last split that has work
// grid: none (library); the kernel imports step
// limits: whole tiles of 64 keys; splits without keys have no work, so a short past costs one
override N_SPLIT: u32 = 1u;
override WINDOW: u32 = 0u;

fn first_key() -> u32 {
  return select(0u, step.pos + 1u - WINDOW, WINDOW != 0u && step.pos + 1u > WINDOW);
}

// Keys of one split.
fn split_keys() -> u32 {
  let n_tiles = (step.pos - first_key() + 63u) / 64u;
  return max(1u, (n_tiles + N_SPLIT - 1u) / N_SPLIT) * 64u;
}

// How many splits have work.
fn n_active() -> u32 {
  return max(1u, (step.pos - first_key() + split_keys() - 1u) / split_keys());
}
