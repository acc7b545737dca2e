// ring: where a convolution's state holds what it read at a position; see ops/conv.py
// shapes: state [RING + ceil(n_ctx / PERIOD) * N_KEPT, N_COLS]
// grid: none (library)
// limits: N_KEPT < PERIOD
override N_KEPT: u32 = 2u;
override RING: u32 = 64u;
override PERIOD: u32 = 32u;

fn is_kept(position: u32) -> bool { return position % PERIOD >= PERIOD - N_KEPT; }

fn state_row(position: u32) -> u32 {
  if (is_kept(position)) {
    return RING + position / PERIOD * N_KEPT + position % PERIOD - (PERIOD - N_KEPT);
  }
  return position % RING;
}
