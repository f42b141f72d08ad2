/* Candidates whose blocks share the k steps of tiles without being a cluster: streams and slices. They go to a list
 * of gemm_candidates() for at most m rows. Thread-safe: these functions only read the problem. */
#pragma once
#include "generator/choose/gemm_candidate.h"

/* A tile whose k is divided evenly, a part after the other, by blocks that stand side by side. */
void gemm_append_streams(const Problem *problem, GArray *list, bool group, unsigned bm, unsigned bn,
                         int64_t m);
/* Tiles that follow one another, of which the last wave and what is beyond it are divided: threads that copy. */
void gemm_append_even(const Problem *problem, GArray *list, unsigned bm, unsigned bn, int64_t m);
/* Few tiles, long k: blocks that stand side by side are at the same k. */
void gemm_append_slices(const Problem *problem, GArray *list, int64_t m);
