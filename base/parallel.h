/* Independent pieces of work on several threads. */
#pragma once

/* Calls work(i, data) for every i below n, on up to `threads` threads (0: one per processor), of which one is
 * the caller's; returns when all calls have. With one thread, or one call, they are made in order. */
void parallel_for(unsigned n, unsigned threads, void (*work)(unsigned i, void *data), void *data);
