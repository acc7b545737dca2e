// The kernels' contract: what a program is, what each kernel is given, how threads share the work.
//
// A model is planned once into a program: an array of `struct call` in this module's own memory.
// `run` interprets a range of it. kernels.json is made from this file, and the planner fills in
// arguments by name, so a field is written down here and nowhere else.
#pragma once

typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef short i16;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long long u64;
typedef long long i64;
typedef float f32;
typedef double f64;
typedef __SIZE_TYPE__ usize;

typedef u32 place;  // address / 16; 0: absent. Scratch and states lie at multiples of 64 bytes.

// Numbers that the planner shares; kernels.json lists them.
enum {
    BARRIER = 1,              // flag of a call: wait first until every call before it is done
    N_CANDIDATES = 256,       // ids that top_k answers with
    SCRATCH_BYTES = 1 << 18,  // of each thread, at team.scratch
    STACK_BYTES = 1 << 16,    // of each thread
    XQ_BLOCK = 32,            // values that share a scale in a quantised activation
    XQ_BLOCK_BYTES = 80,      // room for such a block: codes of up to 16 bits, scale, sums
    XQ_ROWS = 8,              // a quantised activation has room for a multiple of so many rows
    SILU = 0,
    GELU_TANH = 1,
    GELU = 2,                 // with erf
    RELU = 3,
    RELU2 = 4,                // its square
    TILE_KEYS = 16,           // that attention unpacks at a time
    MAX_PARTS = 32,           // that one token's keys are split into
    PART_HEAD = 4,            // words before a part's values
    ROPE_NORM = 0,            // pairs of neighbours
    ROPE_NEOX = 1,            // pairs of halves
    KV_F32 = 0,               // formats of a cache
    KV_F16 = 1,
    KV_Q8_0 = 2,
    SOFTMAX = 0,              // gatings of a router
    SIGMOID = 1,
    SOFTMAX_CHOSEN = 2,
    RUN_OK = 0,
    RUN_STALLED = 1,          // a thread took a share of the work and never finished it
};

// What changes from step to step.
struct step {
    u32 n_tokens;
    u32 position;  // of the first token
    u32 n_out;     // rows whose output is wanted
    place state;   // of the session; places of caches are relative to it
};

struct call {
    u32 kernel;  // its index in KERNELS
    u32 flags;
    u32 args[30];  // struct <kernel>_args
};

// Shares of one call, on a cache line of its own.
struct sync {
    u64 taken;  // run's epoch << 32 | shares given out
    u32 done;   // shares finished, of all calls up to the next barrier; counted at the first one
    u32 pad[13];
};

// Shared by the engine's thread and its pool. The host fills in the first part and `step`.
// Token ids i32 [n_batch] follow right behind it, then wanted rows i32 [n_batch].
struct control {
    place program;
    place sync;     // one struct sync per call
    place scratch;  // SCRATCH_BYTES per thread
    u32 n_threads;
    u32 stall_ms;   // without progress for so long, a run gives up
    u32 spins;      // looks at a word before sleeping on it
    u32 fault;      // tests: the pool member of this index takes a share and dies
    u32 stopping;   // pool members leave
    u32 first, stop, epoch, n_waiting;  // the run under way, runs so far, threads asleep in it
    u32 unused0, unused1, unused2, unused3;
    struct step step;
};

struct team {
    u32 index, n_threads;
    const struct step *step;
    void *scratch;
    struct control *control;
    struct sync *sync;   // of this call
    struct sync *group;  // of the first call since the last barrier
    u32 epoch;
    u32 expected;  // shares of the group's calls so far
    u32 n_chunks;  // of this call, once it has asked for one
    u32 holds;     // whether a share was taken and not yet counted as done
    u32 dies;      // tests: at the first share
};

// The next share of a call that has n_chunks of them, or n_chunks when none is left. Asking again
// says that the one before is finished. A kernel writes to memory for its own share only, and
// loops until it gets n_chunks (which must not depend on the thread):
//     for (u32 i; (i = next_chunk(t, n)) < n;) { ... }
u32 next_chunk(struct team *t, u32 n_chunks);

static inline void *at(place p) { return (void *)((usize)p << 4); }
static inline f32 *f32_at(place p) { return at(p); }
static inline const i32 *i32_at(place p) { return at(p); }
static inline void *state_at(const struct team *t, place p) { return at(t->step->state + p); }
// Rows of a value: those of the outputs, or one per token.
static inline u32 rows_of(const struct team *t, u32 uses_n_out) {
    return uses_n_out ? t->step->n_out : t->step->n_tokens;
}
static inline u32 min_u32(u32 a, u32 b) { return a < b ? a : b; }

// ----- Kernels. Values are f32 rows [n_rows, n_cols]; weights lie as in the file.

struct get_rows_args {  // y = table[ids] * scale
    place ids, table, y;
    u32 n_rows, n_cols, type;  // of the table
    f32 scale;
};

struct quantize_args {  // xq = codes, scales and sums of x
    place x, xq;
    u32 n_cols, uses_n_out;
};

// y[:, y_start : y_start + n_rows] = x @ weight.T + bias + residual, in rows of y_cols.
struct matmul_args {
    place x, xq, weight, bias, residual, y;  // xq absent: exact, in f32 throughout
    u32 n_rows, n_cols, y_cols, y_start, type, uses_n_out;
};

// For slot s of each token, y[:, s] = x[:, s or 0] @ weight[experts[:, s]].T + bias[..]; see
// ops/experts.py. y has n_used * n_rows columns.
struct expert_matmul_args {
    place x, xq, experts, weight, bias, y;  // weight [n_expert, n_rows, n_cols], bias f32
    u32 n_expert, n_used, n_rows, n_cols, type;
    u32 has_own, uses_n_out;  // has_own: x has a row of n_cols for each slot
};

struct expert_route_args {  // experts i32 and shares f32 [rows, n_used] of logits [rows, n_expert]
    place logits, bias, experts, shares;
    u32 n_expert, n_used, gating, normalize, uses_n_out;
    f32 scale, min_total;
};

struct expert_sum_args {  // y = sum over slots of shares[s] * x[s], plus residual if given
    place x, shares, residual, y;
    u32 n_used, n_cols, uses_n_out;
};

struct clamped_glu_args {
    place gate, up, y;
    u32 n_cols, uses_n_out;
    f32 alpha, limit;
};

struct sigmoid_gate_args {  // y = a * sigmoid(x . weight), a row's number for all of it
    place a, x, weight, y;
    u32 n_cols, x_cols, uses_n_out;
};

// Each of n_group groups of a row to unit mean square, times weight if any: one for all groups, or
// n_weights = n_group of them, one for each.
struct rms_norm_args {
    place x, weight, y;
    u32 n_cols, n_group, n_weights, uses_n_out;  // n_cols of the whole row
    f32 eps;
};

// sum = x + (post_weight ? rms_norm(a, post_weight) : a); y = rms_norm(sum, weight) if asked.
struct joint_norm_args {
    place x, a, post_weight, weight, sum, y;
    u32 n_cols, uses_n_out;
    f32 eps;
};

// (x - mean) / sqrt(variance + eps) * weight + bias, where given; groups as of rms_norm.
struct layer_norm_args {
    place x, weight, bias, y;
    u32 n_cols, n_group, n_weights, n_biases, uses_n_out;
    f32 eps;
};

// y [n_tokens, n_rot / 2, 2] = cos and sin of position * freqs, times factor. freqs f32
// [n_rot / 2]; the product is rounded to f32 first.
struct angles_args {
    place freqs, y;
    u32 n_rot;
    f32 factor;
};

struct rope_args {
    place x, angles, y;
    u32 n_head, head_dim, n_rot, layout;
};

struct kv_store_args {  // rows of k and v to the cache, at each token's position
    place k, v, k_cache, v_cache;
    u32 k_cols, v_cols, kv;
};

// Everything between the q/k/v product and attention: norms of q and k where given, rotation of
// both (angles absent: none), k and v to the cache, q to y [n_tokens, n_head * head_dim].
struct heads_args {
    place qkv, q_norm, k_norm, angles, y, k_cache, v_cache;
    u32 n_head, n_head_kv, head_dim, head_dim_v, n_rot, layout, kv;
    f32 eps;
};

// Softmax attention; see ops/attention.py. head_dim_v is a value head's width. `sinks`
// f32 [n_head], if present, are scores with no value behind them. `parts`, zero at first, holds
// f32 [MAX_PARTS, n_head, PART_HEAD + head_dim_v rounded up to 4].
struct attention_args {
    place q, k_cache, v_cache, sinks, parts, y;
    u32 n_head, n_head_kv, head_dim, head_dim_v, window, is_causal, kv;
    f32 scale, softcap;
};

struct glu_args {  // y = activation(gate) * up
    place gate, up, y;
    u32 n_cols, activation, uses_n_out;
};

struct activate_args {
    place x, y;
    u32 n_cols, activation, uses_n_out;
};

struct add_args {
    place a, b, y;
    u32 n_cols, uses_n_out;
};

struct scale_args {
    place x, y;
    u32 n_cols, uses_n_out;
    f32 factor;
};

struct scale_by_args {  // y = x times the one number at weight
    place x, weight, y;
    u32 n_cols, uses_n_out;
};

struct clamp_args {
    place x, y;
    u32 n_cols, uses_n_out;
    f32 limit;
};

struct position_scale_args {  // rows times 1 + slope * ln(1 + floor(position / length))
    place x, y;
    u32 n_cols, length;
    f32 slope;
};

struct positions_args {  // y i32 [n_tokens] = each token's position
    place y;
};

struct columns_args {  // y [rows, n_cols] = columns of x from start on
    place x, y;
    u32 x_cols, start, n_cols, uses_n_out;
};

struct softcap_args {  // y = cap * tanh(x / cap)
    place x, y;
    u32 n_cols, uses_n_out;
    f32 cap;
};

struct add_row_args {  // y = x + weight, a row
    place x, y, weight;
    u32 n_cols, uses_n_out;
};

// y [n_out, n_cols] = the mean of x[0 .. rows[r]], or x[0] with is_cls; see ops/pooling.py.
struct pool_args {
    place x, rows, y;
    u32 n_cols, is_cls;
};

struct select_rows_args {  // y [n_out, n_cols] = x[rows]
    place x, rows, y;
    u32 n_cols;
};

// y i32 [rows]: the lowest index of the largest; -1 for a row with a NaN. `parts`, zero at first,
// holds f32 [n_cols / 4096 + 16].
struct argmax_args {
    place x, parts, y;
    u32 n_cols, uses_n_out;
};

// Of the first row of x; `sample` holds the words of SampleInputs.words (candidates.py), `mask` a
// bit per id. See ops/sampling.py.
struct penalize_args {
    place x, sample, mask, y;
    u32 n_cols;
};

// y: struct candidates, of the first row of x, whose NaN were taken out. `parts`, zero at first,
// holds f32 [n_cols / 32 + 64].
struct top_k_args {
    place x, sample, parts, y;
    u32 n_cols;
};

struct candidates {
    u32 count;  // min(n_cols, N_CANDIDATES), less those that may not be drawn
    f32 total;  // sum of exp((x - max) / temperature) over the row
    u32 pad[2];
    struct { u32 id; f32 logit; } best[N_CANDIDATES];  // largest first, the lower id on a tie
};

// Gated causal convolution over tokens; see ops/conv.py. x [n_tokens, 3 * n_cols]; rows of `state`
// by position: the last `ring`, and behind them those just before each multiple of `period`.
struct short_conv_args {
    place x, weight, state, y;
    u32 n_cols, n_taps, ring, period;
};

#define KERNELS(X)                                                                             \
    X(get_rows) X(quantize) X(matmul) X(rms_norm) X(joint_norm) X(layer_norm) X(angles)        \
    X(rope) X(kv_store) X(heads) X(attention) X(glu) X(activate) X(add) X(scale) X(softcap)    \
    X(select_rows) X(argmax) X(penalize) X(top_k) X(short_conv) X(scale_by) X(clamp)           \
    X(position_scale) X(positions) X(columns) X(expert_matmul) X(expert_route) X(expert_sum)   \
    X(clamped_glu) X(sigmoid_gate) X(add_row) X(pool)

#define DECLARE(name) void k_##name(const struct name##_args *a, struct team *t);
KERNELS(DECLARE)
#undef DECLARE
