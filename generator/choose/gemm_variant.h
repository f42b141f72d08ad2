/* A variant for a tile of a product. Functions of a Problem only read it, but for the arena that guards go to. */
#pragma once
#include "generator/choose/gemm_candidate.h"

#define LEAST_STAGES 2 /* slots of a ring */

/* The template of tiles as they stand (swap-AB may have another). */
const char *gemm_variant_template(const FusedGemm *gemm);
/* Bytes that addresses and strides of both operands are multiples of where copies are wide. */
unsigned gemm_wide_copy(const Problem *problem, bool warpgroups);
/* Wide copies of both operands; thread copies also need contiguous extents of whole vectors, TMA copies
 * some K. false: it is known that there are none. `beside`: whole vectors too of what the epilogue loads, of tensors that are not
 * known to lie elsewhere. */
bool gemm_require_fast(const Problem *problem, Choice *choice, bool warpgroups, bool beside);
/* What of it is asked of operands, whatever K is. */
bool gemm_require_operands(const Problem *problem, Choice *choice, bool warpgroups, bool beside);
/* Makes the choice one of `tile`, completed for the guard that the choice has: without wide copies (not `fast`) it has
 * fewer stages. `comes_back`: other variants have it too, for more rows, and are to share its kernel, whose blocks walk
 * then. */
void gemm_variant(const Problem *problem, Choice *choice, GemmCandidate tile, bool fast, bool comes_back);
/* The variant that the passes are asked about a candidate by: with wide copies, and nothing said of the rows, so that ranges
 * of rows ask once. false: it is known that there are no wide copies. */
bool gemm_variant_dry(const Problem *problem, Choice *choice, const GemmCandidate *candidate);
/* Why the passes do not make of the candidate what it is priced as, or NULL. */
const char *gemm_refusal(const Problem *problem, const GemmCandidate *candidate, const DrySummary *summary);
/* Do the passes take the candidate? Lessens its stages to those there is room for. true where nobody can be asked, or
 * enough was asked; notes why not. */
bool gemm_settle(Chooser *chooser, GemmCandidate *candidate);
/* Asks ahead, on several threads, what gemm_cheapest() of the lists, for so many rows each, will ask first. */
void gemm_settle_ahead(Chooser *chooser, GArray *const *lists, const int64_t *rows, unsigned n);
/* Sets what follows from the other parameters, unless --set does. */
void gemm_variant_follow(const Problem *problem, Choice *choice);
