/* Plan choice: which variants of a fused operator are generated, with which template, tile and guard.
 *
 * At most PLAN_MAX_VARIANTS, most demanding guard first; the last has none. Everything is decided from the
 * graph's facts and the GPU's description; the reasons go to `explain`. */
#pragma once
#include "adl/gpu.h"
#include "generator/kernel/kernel.h"
#include "generator/options.h"
#include "plan/plan.h"

typedef struct GemmMemo GemmMemo; /* generator/choose/gemm_memo.h */

typedef struct Chooser {
  const FusedOperator *op;
  const FusedOperator *turned; /* GEMM, not reduced: the operator as its transpose; choose_variants sets it */
  unsigned copy_bytes;         /* GEMM: what threads are priced to copy at a time; 0: 16 */
  int64_t batches;             /* GEMM: priced for so many of them; 0: for what is typical */
  GemmMemo *memo;              /* GEMM: candidates that were completed before; NULL: none is kept */
  const Graph *graph;
  const Gpu *gpu;
  const CompileOptions *options;
  Arena *arena;     /* of guards and names */
  GString *explain; /* may be NULL */
  Choice variants[PLAN_MAX_VARIANTS];
  unsigned n;
  GError **error;
} Chooser;

bool choose_variants(Chooser *chooser);
/* The graph's fused operators for a GPU: two products of one operand are one kernel where the cost model says
 * so. As fusion_build(); options may be NULL. */
Fusion *choose_fusion(const Graph *graph, const Gpu *gpu, const CompileOptions *options, GError **error);

/* ---- between choose*.c only ---- */
/* Is the product of copies of its operands in rows of whole 16 bytes better than that of the operands where
 * they lie? `why`: for a note, in the chooser's arena. Uses the chooser up. */
bool choose_copies_pay(Chooser *chooser, const FusedCopies *copies, const char **why);
/* Variants for very few rows of a product whose operands' rows start at no multiples of 16 bytes, which need
 * no copies of them. They come first; the last may be for any number of rows that there can be. */
void choose_few_rows(Chooser *chooser);
/* --set names what tiles of products have, and kernels that sum along k have not, or mean otherwise. */
bool choose_tile_forced(const Chooser *chooser);
/* What follows of a variant's parameters once those that --set forces are known. false: they exceed the
 * budget of SMs. */
bool choose_gemm_complete(Chooser *chooser, Choice *choice);
/* Finds variants that can launch one kernel: sets Choice.kernel_of of all. */
void choose_shared_kernels(Chooser *chooser);
/* Choosers, one for each family. */
#define FAMILY(kind, name, ...) bool choose_##name(Chooser *chooser);
#include "generator/program/families.def"
#undef FAMILY
void choose_note(Chooser *chooser, const char *format, ...) G_GNUC_PRINTF(2, 3);
Choice *choose_open(Chooser *chooser, const char *template_name);
/* The variant requires: expression is a multiple of `multiple`. Adds to guard and assumptions what is not
 * known. false if it is known to be false. */
bool choose_require_multiple(Chooser *chooser, Choice *choice, const Symbolic *expression, int64_t multiple);
bool choose_require_at_most(Chooser *chooser, Choice *choice, const Symbolic *expression, int64_t maximum);
bool choose_require_at_least(Chooser *chooser, Choice *choice, const Symbolic *expression, int64_t minimum);
bool choose_require_align(Chooser *chooser, Choice *choice, const GraphTensor *tensor, unsigned align);
/* Is every --set of the options a parameter that may be forced, with a value that it can have? Names that no
 * template has pass: CompileOptions.set_used tells of those. */
bool choose_check_sets(const CompileOptions *options, GError **error);
/* Does --set name the parameter? Then *value (may be NULL) gets its number. */
bool choose_forced(const Chooser *chooser, const char *name, unsigned *value);
/* Does --set name any? What cannot fit then is not left out, but told by how much. */
bool choose_is_forced(const Chooser *chooser);
/* Largest value the expression can have, and a typical one for the cost model (symbols without bounds count
 * as 4096). */
int64_t choose_maximum(const Chooser *chooser, const Symbolic *expression);
int64_t choose_typical(const Chooser *chooser, const Symbolic *expression);
