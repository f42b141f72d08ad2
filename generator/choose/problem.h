/* Problem and Chooser: what a choice is made for, and what becomes of it.
 *
 * A Problem is never changed once it is made: pricing reads it from several threads. A question about other
 * facts (other operands, another number of batches) is asked of a changed copy. A Chooser collects variants
 * and reasons, for one thread at a time. */
#pragma once
#include "adl/gpu.h"
#include "generator/choose/dry_run.h"
#include "generator/choose/spaces.h"
#include "generator/kernel/kernel.h"
#include "generator/options.h"
#include "plan/plan.h"

typedef struct GemmMemo GemmMemo; /* generator/choose/gemm_memo.h */

typedef struct Problem {
  const FusedOperator *op;
  const FusedOperator *turned; /* as the family turns it; NULL: it must stay as it is */
  const Graph *graph;
  const Gpu *gpu;
  const CompileOptions *options; /* may be NULL */
  Arena *arena;                  /* of guards and names */
  unsigned copy_bytes;           /* GEMM: what threads are priced to copy at a time; 0: 16 */
  int64_t batches;               /* GEMM: priced for so many of them; 0: for what is typical */
  const Spaces *spaces;          /* what templates declare; NULL: no candidates */
  GemmMemo *memo;                /* GEMM: candidates that were completed before; NULL: none is kept */
  DryRuns *dry;                  /* what the passes say; NULL: bounds are taken at their word */
  DryRuns *judged;               /* the same while fusion asks whether there is any kernel; or NULL */
  bool measured;                 /* what --set says here was measured: what cannot have it is no answer */
  struct CandidateList
      *tried; /* gets what templates try for it, and what only those try who measure; or NULL */
} Problem;

typedef struct Chooser {
  const Problem *problem;
  GString *explain; /* may be NULL */
  Choice variants[PLAN_MAX_VARIANTS];
  unsigned n;
  /* What follows of a variant's parameters once those that --set forces are known, set by the family's chooser; NULL:
   * nothing. false: *error says what does not fit. */
  bool (*complete)(struct Chooser *chooser, Choice *choice);
  GError **error;
} Chooser;

/* ---- questions about the problem ---- */
Problem problem_of(const FusedOperator *op, const Graph *graph, const Gpu *gpu, const CompileOptions *options,
                   Arena *arena);
/* What --set gives the parameter, as written; NULL: nothing. */
const char *choose_forced_text(const Problem *problem, const char *name);
/* Does --set name the parameter? Then *value (may be NULL) gets its number. */
bool choose_forced(const Problem *problem, const char *name, unsigned *value);
/* Does --set name any? What cannot fit then is not left out, but told by how much; unless it was measured. */
bool choose_is_forced(const Problem *problem);
/* Largest value the expression can have, and a typical one for the cost model (symbols without bounds count
 * as 4096). */
int64_t choose_maximum(const Problem *problem, const Symbolic *expression);
/* low, doubled until it is enough, or `high` is reached: a power of two if low is. */
unsigned choose_power_of_two(int64_t at_least, unsigned low, unsigned high);
int64_t choose_typical(const Problem *problem, const Symbolic *expression);

/* ---- variants and their guards ---- */
void choose_note(Chooser *chooser, const char *format, ...) G_GNUC_PRINTF(2, 3);
Choice *choose_open(Chooser *chooser, const char *template_name);
/* The variant requires the condition. false if it is known not to hold. */
bool choose_require(const Problem *problem, Choice *choice, const Symbolic *condition);
/* The variant requires: expression is a multiple of `multiple`. Adds to guard and assumptions what is not
 * known. false if it is known to be false. */
bool choose_require_multiple(const Problem *problem, Choice *choice, const Symbolic *expression,
                             int64_t multiple);
bool choose_require_at_most(const Problem *problem, Choice *choice, const Symbolic *expression,
                            int64_t maximum);
bool choose_require_at_least(const Problem *problem, Choice *choice, const Symbolic *expression,
                             int64_t minimum);
bool choose_require_align(const Problem *problem, Choice *choice, const GraphTensor *tensor, unsigned align);
/* What `require` asks of each input, and of the outputs behind them. An input that is known to lie otherwise and that `may` be is
 * read one by one (`single`) from neighbouring addresses, which the first-level cache brings together; results and one of these
 * inputs must lie well. */
typedef bool (*RequireOperand)(const Problem *problem, Choice *choice, unsigned i, void *data);
bool choose_require_operands(const Problem *problem, Choice *choice,
                             bool (*may)(const FusedOperator *op, unsigned input), RequireOperand require,
                             void *data);
/* Elements of the input lie side by side, one for each element of the row. */
bool choose_reads_along(const FusedOperator *op, unsigned input);
