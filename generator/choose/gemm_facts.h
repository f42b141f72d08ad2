/* What `try` lines of a product's templates may ask (gemm_facts.def). */
#pragma once
#include "generator/choose/gemm_candidate.h"

typedef struct GemmAsked {
  const Problem *problem;
  bool warpgroups; /* by warpgroup MMAs */
  int64_t m;
  bool bounded;
} GemmAsked;

/* NULL-terminated. */
extern const char *const gemm_fact_names[];
/* Their values, as many. g_free. */
int64_t *gemm_facts(const GemmAsked *asked);
/* The value of one that is not of what is tried; and names of those that are, NULL-terminated. */
int64_t gemm_problem_fact(const Problem *problem, unsigned index);
extern const char *const gemm_facts_tried[];
