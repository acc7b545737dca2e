// step: what changes from one run of a plan to the next
// shapes: a uniform at the start of the input slot
// grid: none (library)
// limits: none
struct Step { n_tokens: u32, pos: u32, n_out: u32, count: u32 }
