/* The space of products: what choosing knows of its axes (gemm_axes.def), and candidates by them. */
#pragma once
#include "generator/choose/gemm_candidate.h"

typedef enum GemmCarried { /* variants that have a parameter, if their template declares it */
                           GEMM_ALWAYS,
                           GEMM_TURNED,       /* where operands could change places */
                           GEMM_FAST,         /* with wide copies */
                           GEMM_FAST_OR_PAIR, /* and two products of few rows */
                           GEMM_TMA,          /* with TMA copies */
                           GEMM_TMA_OR_PAIR,
                           GEMM_NEEDED, /* where its value is not the absent one */
} GemmCarried;

/* A candidate of which nothing is said. */
GemmCandidate gemm_candidate_absent(bool warpgroups);
/* The same as the candidate of the template that computes it. */
GemmCandidate gemm_candidate_from(const Candidate *general, bool warpgroups);
/* What a variant carries of a candidate. */
GemmCandidate gemm_candidate_of(const Problem *problem, const Choice *choice);
/* Templates of tiles that are tried for the product, in this order; NULL-terminated. */
const char *const *gemm_templates(const Problem *problem);
/* Does --set name what tiles of products have, and kernels that sum along k have not, or mean otherwise? */
bool gemm_tile_forced(const Problem *problem);
