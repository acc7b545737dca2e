// slot: where the rows of an expert lie in a chunk of the stacked weight
// shapes: W [N_EXPERT, N_ROWS, N_COLS], of which the chunk holds rows row_start.. (N_CHUNK of them)
// grid: none (library)
// limits: a chunk holds whole experts or a part of one, cut at a multiple of four rows
override N_EXPERT: u32 = 1u;
override N_ROWS: u32 = 1u;
override N_CHUNK: u32 = 1u;

// The expert's rows in the chunk: the first of four at ``row``, and the end that none may pass.
struct Span { first: u32, end: u32, is_inside: bool }

fn span_of(expert: u32, row: u32, row_start: u32) -> Span {
  let base = min(expert, N_EXPERT - 1u) * N_ROWS;
  // Unsigned: a row before the chunk is far past it.
  let first = base + row - row_start;
  return Span(first, min(base + N_ROWS - row_start, N_CHUNK), row < N_ROWS && first < N_CHUNK);
}
