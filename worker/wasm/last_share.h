// Shares whose results are joined by whichever thread finishes last.
#pragma once
#include "rushlight.h"

// Counts one of n shares as finished; true for the last. The counter is left at zero; one that an
// abandoned run left elsewhere counts as zero, since runs differ in their epoch.
static inline u32 is_last_share(struct team *t, u64 *counter, u32 n) {
    u64 seen = __atomic_load_n(counter, __ATOMIC_SEQ_CST), next;
    do {
        u32 count = seen >> 32 == t->epoch ? (u32)seen + 1 : 1;
        next = count == n ? 0 : (u64)t->epoch << 32 | count;
    } while (!__atomic_compare_exchange_n(counter, &seen, next, 0, __ATOMIC_SEQ_CST,
                                          __ATOMIC_SEQ_CST));
    return next == 0;
}
