/* Data of a run: inputs from files or by chance, outputs against the reference and to disk. */
#pragma once
#include "base/output.h"
#include "execute/evaluate.h"
#include "execute/execute.h"

typedef struct RunData {
  const Graph *graph; /* all its dimensions are bound */
  Tensor **inputs;    /* as graph->inputs */
  Tensor **constants; /* as graph->constants */
  Tensor **outputs;   /* as graph->outputs; NULL before run_data_take_outputs */
  double *scales;     /* as graph->inputs: what default data were multiplied by */
} RunData;

/* Makes inputs and constants. files: paths by the inputs' names (char *), or NULL; the other inputs get default data.
 * The graph must outlive the data. */
RunData *run_data_new(const Graph *graph, GHashTable *files, uint64_t seed, GError **error);
void run_data_free(RunData *data);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(RunData, run_data_free)
/* Puts inputs and constants where the execution reads them, and takes the outputs from it. compiled: the graph that the plan is of,
 * dimensions of which may be open; it has the plan's constants. */
bool run_data_put_inputs(const RunData *data, const Graph *compiled, Execution *execution, GError **error);
/* What is wrong with lists that the caller gives: where sequences end, tables of pages, slots. Kernels clamp or skip what is, and write nothing
 * elsewhere, but nobody means it: a fault of the kind `operand` each. Lists that the graph computes are not looked at. */
void run_data_check_lists(const RunData *data, ExecutionFaults *faults);
bool run_data_take_outputs(RunData *data, const Execution *execution, GError **error);
/* The reference's in their place, where nothing was compiled. */
bool run_data_take_reference(RunData *data, GError **error);

/* What a check is to be like. */
typedef struct RunCheck {
  bool fast;        /* products that do not say keep their sums as the hardware does */
  double tolerance; /* a limit that can only lower those of the types; INFINITY: none */
  bool admit_wide;  /* takes results whose limit is too wide to prove them */
} RunCheck;

/* An output against its reference, and the element that is furthest off. */
typedef struct RunComparison {
  Comparison whole;
  double out, reference;
  const GraphNode *wider; /* if the limit is too wide: the node that made it so; NULL: it is not known */
  bool admitted;          /* although the limit is too wide */
} RunComparison;

/* Computes the reference and compares each output. In the arena, as graph->outputs; NULL on error. */
RunComparison *run_data_check(const RunData *data, const RunCheck *check, Arena *arena, GError **error);
/* Compares outputs with the reference of the graph for such inputs: those that are further off than results of their type usually are
 * by errors carried along the graph, as run_data_check() does. comparisons: as graph->outputs. */
bool run_compare(const Graph *graph, Tensor *const *inputs, Tensor *const *outputs, bool fast,
                 Comparison *comparisons, GError **error);
/* The output is right as far as was asked for. */
bool run_comparison_passes(const RunComparison *comparison);
/* What default data were multiplied by, where it is not 1, by input. */
json_t *run_data_scales(const RunData *data);
/* inputs.safetensors and outputs.safetensors. */
bool run_data_write(const RunData *data, Output *output, GError **error);
