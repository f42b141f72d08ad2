/* What choosing tiles asks again and again. The product as the cost model sees it, and candidates that were completed before: their depth and stages, and whether they are legal, depend on the
 * operator and the GPU, not on the number of rows, and the same few hundred are priced for each of some
 * sixty. */
#pragma once
#include "generator/choose/gemm_candidate.h"

GemmMemo *gemm_memo_new(const Problem *problem);
void gemm_memo_free(GemmMemo *memo);
/* gemm_operator_shape(), from any thread too. */
CostGemm gemm_memo_shape(const Problem *problem, bool swapped);
/* Clusters of so many blocks that run at once on the SMs that the kernel may use (resident_clusters). */
unsigned gemm_memo_clusters(const Problem *problem, unsigned blocks);
/* gemm_candidate(), fast, and whether that is legal. From any thread where the problem has a memo. */
bool gemm_memo_complete(const Problem *problem, GemmCandidate tile, GemmCandidate *completed);
