/* Kernels that sum along k: how many sums a block takes, and by how many threads, as their templates say. */
#pragma once
#include "generator/choose/contest.h"
#include "generator/program/gemm.h"

typedef struct GemvAsked {
  int64_t m;       /* rows of A, or of the side that has the sums' rows */
  unsigned vector; /* elements that a lane loads at a time */
  unsigned share;  /* rows of a warp that share what is loaded of A */
} GemvAsked;

extern const SpaceKind gemv_kind;
/* Facts by these; g_free. */
int64_t *gemv_facts(const Problem *problem, const GemvAsked *asked);
/* A variant with the tile: of `gemm`, whose operands change places if swapped. */
void gemv_finish(Chooser *chooser, Choice *choice, const FusedGemm *gemm, const Candidate *tile,
                 bool swapped);
/* The same with the first that its template tries; false: the chooser's *error says that there is none. */
bool gemv_choose(Chooser *chooser, Choice *choice, const FusedGemm *gemm, GemvAsked asked, bool swapped);
