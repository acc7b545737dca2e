// Runs a range of a program on a team of threads.
//
// A call's work is cut into shares; threads take them one by one. What a barrier waits for is that
// the shares of the calls before it are done, not that every thread has arrived: a thread that
// sleeps or has died without a share holds nobody up.
#include "rushlight.h"

typedef void kernel(const void *args, struct team *t);

#define ENTRY(name) (kernel *)k_##name,
static kernel *const kernels[] = {KERNELS(ENTRY)};

static const i64 NS_PER_MS = 1000000;
enum { FIRST = 0, NAP_MS = 100 };

static u32 load(const u32 *word) { return __atomic_load_n(word, __ATOMIC_SEQ_CST); }
static void store(u32 *word, u32 value) { __atomic_store_n(word, value, __ATOMIC_SEQ_CST); }
static void add(u32 *word, u32 n) { __atomic_fetch_add(word, n, __ATOMIC_SEQ_CST); }

static void wake(u32 *word) { __builtin_wasm_memory_atomic_notify((int *)word, ~0u); }

// Sleeps while the word holds `value`, for at most `ms`; 2 when the time ran out.
static int sleep_on(u32 *word, u32 value, i64 ms) {
    return __builtin_wasm_memory_atomic_wait32((int *)word, (int)value, ms * NS_PER_MS);
}

static void count_done(struct team *t) {
    if (!t->holds) return;
    t->holds = 0;
    if (t->n_threads == 1) {
        t->group->done++;
        return;
    }
    add(&t->group->done, 1);
    if (load(&t->control->n_waiting)) wake(&t->group->done);
}

u32 next_chunk(struct team *t, u32 n_chunks) {
    count_done(t);
    t->n_chunks = n_chunks;
    u64 *taken = &t->sync->taken;
    if (t->n_threads == 1) {
        u32 i = (u32)*taken;
        if (i >= n_chunks) return n_chunks;
        ++*taken;
        t->holds = 1;
        return i;
    }
    u64 seen = __atomic_load_n(taken, __ATOMIC_SEQ_CST);
    // A thread that is late finds another run's epoch here and leaves that run's shares alone.
    while (seen >> 32 == t->epoch && (u32)seen < n_chunks) {
        if (__atomic_compare_exchange_n(taken, &seen, seen + 1, 0, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST)) {
            if (t->dies) __builtin_trap();
            t->holds = 1;
            return (u32)seen;
        }
    }
    return n_chunks;
}

// Waits until the group's shares are done. A late thread of an older run stops waiting too.
static u32 wait_for_group(struct team *t) {
    struct control *c = t->control;
    u32 *done = &t->group->done;
    u32 slept = 0, before = 0;
    for (u32 spin = 0;; spin++) {
        u32 n = load(done);
        if (n == t->expected) return RUN_OK;
        if (load(&c->epoch) != t->epoch) return RUN_STALLED;
        if (spin < c->spins) continue;
        if (n != before) slept = 0;
        before = n;
        add(&c->n_waiting, 1);
        int outcome = sleep_on(done, n, NAP_MS);
        add(&c->n_waiting, -1);
        if (outcome == 2) slept += NAP_MS;
        if (slept >= c->stall_ms) return RUN_STALLED;
    }
}

// One thread's way through the calls first .. stop.
static u32 walk(struct team *t, u32 first, u32 stop) {
    const struct call *calls = at(t->control->program);
    struct sync *syncs = at(t->control->sync);
    t->group = &syncs[first];
    t->expected = 0;
    for (u32 i = first; i < stop; i++) {
        if (calls[i].flags & BARRIER && i > first) {
            if (t->n_threads > 1 && wait_for_group(t)) return RUN_STALLED;
            t->group = &syncs[i];
            t->expected = 0;
        }
        t->sync = &syncs[i];
        t->n_chunks = 0;
        kernels[calls[i].kernel](calls[i].args, t);
        count_done(t);
        t->expected += t->n_chunks;
    }
    return t->n_threads > 1 ? wait_for_group(t) : RUN_OK;
}

static struct team team_of(struct control *c, u32 index, u32 epoch) {
    return (struct team){
        .index = index,
        .n_threads = c->n_threads,
        .step = &c->step,
        .scratch = (u8 *)at(c->scratch) + index * SCRATCH_BYTES,
        .control = c,
        .epoch = epoch,
    };
}

// Runs the calls first .. stop; the engine's own thread, which works along with its pool.
__attribute__((export_name("run"))) u32 run(struct control *c, u32 first, u32 stop) {
    u32 epoch = c->epoch + 1;
    struct sync *syncs = at(c->sync);
    for (u32 i = first; i < stop; i++) {
        // `taken` last: a late thread of the run before must not count in this one.
        __atomic_store_n(&syncs[i].done, 0, __ATOMIC_SEQ_CST);
        __atomic_store_n(&syncs[i].taken, (u64)epoch << 32, __ATOMIC_SEQ_CST);
    }
    c->first = first;
    c->stop = stop;
    store(&c->epoch, epoch);
    if (c->n_threads > 1) wake(&c->epoch);
    struct team t = team_of(c, FIRST, epoch);
    u32 outcome = first < stop ? walk(&t, first, stop) : RUN_OK;
    // The host now writes the next step, with which a call may have more shares: a late thread of
    // this run must not take one of those.
    for (u32 i = first; i < stop; i++)
        __atomic_store_n(&syncs[i].taken, (u64)epoch << 32 | 0xffffffff, __ATOMIC_SEQ_CST);
    return outcome;
}

// A pool member's whole life: work on each run until told to stop.
__attribute__((export_name("pool_loop"))) void pool_loop(struct control *c, u32 index) {
    u32 seen = 0;
    for (u32 spin = 0; !load(&c->stopping); spin++) {
        u32 epoch = load(&c->epoch);
        if (epoch == seen) {
            if (spin >= c->spins) sleep_on(&c->epoch, epoch, NAP_MS);
            continue;
        }
        seen = epoch;
        struct team t = team_of(c, index, epoch);
        t.dies = c->fault == index;
        walk(&t, c->first, c->stop);
        spin = 0;
    }
}
