/* Measured choices for matrix products: what an entry is filed under, what it says, and what could be
 * measured. The functions read the Chooser; one thread at a time. */
#pragma once
#include "generator/choose/gemm_candidate.h"
#include "generator/choose/tuned.h"

/* Fills in product, batches, n, k and sms; the text lives in the problem's arena. false: one of them is
 * known only at launch, so nothing is filed under it. */
bool tuned_gemm_key(const Problem *problem, TunedEntry *key);
/* Every candidate worth measuring for m rows, PricedCandidate, cheapest first: what gemm_candidates()
 * enumerates, and that in clusters where the GPU has them. The caller owns the array. */
GArray *tuned_gemm_space(const Problem *problem, bool warpgroups, int64_t m, bool bounded);
/* The measured choice for m rows, if the options bring a database that has one and it is legal; notes what
 * was found. */
bool tuned_gemm_find(Chooser *chooser, bool warpgroups, int64_t m, bool bounded, GemmCandidate *candidate);
