/* What `try` lines of a product's templates may ask (gemm_facts.def). */
#pragma once
#include "generator/choose/gemm_candidate.h"

typedef struct GemmAsked {
  const Problem *problem;
  bool group; /* by warpgroup MMAs */
  int64_t m;
  bool bounded;
} GemmAsked;

/* NULL-terminated. */
extern const char *const gemm_fact_names[];
/* Their values, as many. g_free. */
int64_t *gemm_facts(const GemmAsked *asked);
/* The value of one. */
int64_t gemm_fact(const GemmAsked *asked, unsigned index);
