/* Plan choice: which variants of a fused operator are generated, with which template, tile and guard.
 *
 * At most PLAN_MAX_VARIANTS, most demanding guard first; the last has none. Everything is decided from the
 * graph's facts and the GPU's description; the reasons go to `explain`. */
#pragma once
#include "generator/choose/problem.h"

bool choose_variants(Chooser *chooser);
/* The same without measured choices of operators, and without notes of what was chosen. Of products what was measured counts
 * where ranges of rows are made. */
bool choose_by_model(Chooser *chooser);
/* The graph's fused operators for a GPU, whose kernels and prices are the judge (judge.c). As fusion_build();
 * options may be NULL. *spaces (may be NULL) gets what templates of families that try it declare; the
 * caller frees it, after a fault too. */
Fusion *choose_fusion(const Graph *graph, const Gpu *gpu, const CompileOptions *options, Spaces **spaces,
                      GError **error);

/* The same by a judge that asks the passes, too, which kernels there are. */
Fusion *choose_fusion_dry(const Graph *graph, const Gpu *gpu, const CompileOptions *options,
                          DryRunFunction run, void *data, Spaces **spaces, GError **error);

/* The spaces of all families. */
Spaces *choose_spaces(GError **error);

/* ---- between choose*.c only ---- */
/* Variants for very few rows of a product whose operands' rows start at no multiples of 16 bytes, which need
 * no copies of them. They come first; the last may be for any number of rows that there can be. false: *error. */
bool choose_few_rows(Chooser *chooser);
/* What follows of a variant's parameters once those that --set forces are known. false: they exceed the
 * budget of SMs. */
bool choose_gemm_complete(Chooser *chooser, Choice *choice);
/* Finds variants that can launch one kernel: sets Choice.kernel_of of all. */
void choose_shared_kernels(Chooser *chooser);
/* Choosers, one for each family. */
#define FAMILY(name, ...) bool choose_##name(Chooser *chooser);
#include "generator/program/families.def"
#undef FAMILY
/* What they know of the spaces of their templates; NULL: nothing of what these say is tried. */
#define FAMILY(name, ...) const SpaceKind *space_kind_##name(void);
#include "generator/program/families.def"
#undef FAMILY
/* Is every --set of the options a parameter that may be forced, with a value that it can have? Names that no
 * template has pass: CompileOptions.set_used tells of those. */
bool choose_check_sets(const CompileOptions *options, GError **error);
/* Says in an error of choosing, or of a kernel, which values were asked for: what does not fit may follow from them. The
 * kernel's choice; NULL: what is asked of any. error may be NULL. */
void choose_name_sets(const CompileOptions *options, const Choice *choice, GError *error);
/* The options' sets with the names that parameters have today (ir/former.h); g_strfreev. */
GStrv choose_sets_today(const CompileOptions *options);
