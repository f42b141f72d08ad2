/* Fusion: the graph's nodes grouped into fused operators, one kernel (or one list of guarded variants) each: a
 * program (generator/program/program.h), and what the family that matches it makes of it
 * (generator/program/fused.h).
 *
 * Everything lives in the fusion's arena. Immutable after fusion_build(). */
#pragma once
#include "generator/program/fused.h"
#include "generator/program/judge.h"

/* A constant that fusion makes of those of the graph, side by side along a dimension. */
typedef struct FusionStack {
  const GraphTensor *tensor, *const *parts;
  unsigned n, along;
} FusionStack;

typedef struct Fusion {
  Arena *arena;
  const Graph *graph;
  FusedOperator **operators; /* topological order */
  unsigned n;
  const GraphTensor *
      *intermediates; /* tensors in global memory that are neither input, constant nor output */
  unsigned n_intermediates;
  const FusionStack *const *stacks;
  unsigned n_stacks;
  bool walks;         /* the one operator of a loop's body may do all of its times */
  const char **notes; /* what was fused or not and why, for --explain, in order */
  unsigned n_notes;
} Fusion;

typedef struct Fuser Fuser; /* generator/fusion/private.h */

/* What the nodes are, from rewrite to rewrite. */
typedef enum {
  FUSION_NODES,  /* the graph's */
  FUSION_READS,  /* no node is a view: tensors are read and written where they lie */
  FUSION_PLACED, /* operands lie as kernels read them; nodes are numbered */
  FUSION_GROUPS, /* each is in a group, which is a kernel's */
} FusionStage;

typedef struct FusionRewrite {
  const char *name;
  FusionStage needs, gives;
  bool optional; /* may be skipped by name: kernels are then slower, never wrong */
  void (*run)(Fuser *fuser);
  bool (*visit)(Fuser *fuser, unsigned place); /* instead: rewrites.h */
  const char *does;
} FusionRewrite;

/* In the order they run. */
const FusionRewrite *fusion_rewrites(unsigned *n);
bool fusion_has_rewrite(const char *name);

typedef struct FusionOptions {
  bool none; /* no optional rewrite, one kernel a node: for tests and bisection */
  const char *const
      *skip; /* optional rewrites that are left out, NULL-terminated, or NULL; other names are ignored */
  unsigned max_steps; /* elementwise steps a kernel; 0: 64 */
  /* Called behind each rewrite that is not skipped, with its place in the list and the nodes as text; rewrites that visit the nodes
   * together share one. NULL: nobody wants to know. */
  void (*report)(unsigned rewrite, const char *text, void *report_data);
  void *report_data;
  ProgramJudge judge; /* NULL: program_judge_families */
  void *data;         /* the judge's */
} FusionOptions;

/* The graph must outlive the fusion. options may be NULL. ERROR_UNSUPPORTED for what no kernel exists. */
Fusion *fusion_build(const Graph *graph, const FusionOptions *options, GError **error);
void fusion_free(Fusion *fusion);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Fusion, fusion_free)
/* Text for tests and --explain; g_free. */
char *fusion_dump(const Fusion *fusion);
