/* Candidates that were completed before: their depth and stages, and whether they are legal, depend on the
 * operator and the GPU, not on the number of rows, and the same few hundred are priced for each of some
 * sixty. */
#pragma once
#include "generator/choose/gemm_candidate.h"

GemmMemo *gemm_memo_new(void);
void gemm_memo_free(GemmMemo *memo);
/* gemm_candidate(), fast, and whether that is legal. From any thread where the chooser has a memo. */
bool gemm_memo_complete(const Chooser *chooser, GemmCandidate tile, GemmCandidate *completed);
