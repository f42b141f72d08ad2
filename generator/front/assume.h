/* What a model takes for granted of its symbols. An ONNX model may slice a table of 32 positions by the length of its input and add
 * the result to what has that length: it holds for lengths up to 32, and says so nowhere. Such a thing is learnt while
 * types are inferred; the graph is then read once more with it, as if the description declared it, so that plans
 * have it among the facts of their symbols and launches check it. Nothing is taken for granted that no launch can check.
 *
 * Between the files of front/ only. */
#pragma once
#include "symbolic/symbolic.h"

typedef struct Assumption {
  const char *name;       /* the symbol */
  int64_t min, max;       /* it lies between, */
  const Symbolic *equals; /* or has this value, of other symbols; NULL: not */
} Assumption;

typedef struct Assumptions {
  Arena *arena;   /* of names and expressions */
  GArray *list;   /* as they were made: one does not name symbols that earlier ones replace */
  unsigned known; /* so many are of earlier readings */
} Assumptions;

Assumptions *assumptions_new(void);
void assumptions_free(Assumptions *assumptions);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Assumptions, assumptions_free)

/* Takes two extents for equal. false: they cannot be for any value, or it is nothing that symbols alone say. */
bool assume_equal(Assumptions *assumptions, const SymbolicFacts *facts, const Symbolic *a, const Symbolic *b);
/* Takes the smaller or the larger of two for 1, as the length of `x[-1:]` of rows of which there is one at least. false: no bounds of symbols
 * make it so. */
bool assume_one(Assumptions *assumptions, const SymbolicFacts *facts, const Symbolic *extent);
/* The expression with what replaces symbols. */
const Symbolic *assumptions_apply(const Assumptions *assumptions, Arena *arena, const Symbolic *expression);
