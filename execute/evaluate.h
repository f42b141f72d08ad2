/* A graph evaluated node by node by the reference: what `run --check` holds kernels against. Knows of neither
 * fusion nor plan. */
#pragma once
#include "generator/front/graph.h"
#include "plan/plan.h"
#include "reference/errors.h"

/* Tensor with the default data for input `index` of the graph, floats times `scale` (execute/default_data.h). The
 * graph must be bound: all shapes are numbers. */
Tensor *evaluate_default_input(const Graph *graph, unsigned index, double scale, uint64_t seed,
                               GError **error);
/* Tensor of constant `index`: its data, or what its file holds. */
Tensor *evaluate_constant(const Graph *graph, unsigned index, GError **error);
/* Tensor of a constant of the plan, by its name, or stacked of several of the graph. */
Tensor *evaluate_plan_constant(const Graph *graph, const PlanTensor *constant, GError **error);
/* Values of the graph's outputs, in their order; free with g_ptr_array_unref. inputs: Tensor *, in the order
 * of graph->inputs, dense. */
GPtrArray *evaluate_graph(const Graph *graph, Tensor *const *inputs, GError **error);
/* How far right results may be off. */
typedef struct EvaluationErrors {
  GPtrArray *each;         /* double * for each output, an error an element; NULL: the output is exact */
  double *widest;          /* for each output: the widest limit that proves anything of it */
  const GraphNode **wider; /* for each output: the node that made its errors wider; NULL: none did */
} EvaluationErrors;
void evaluation_errors_clear(EvaluationErrors *errors);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(EvaluationErrors, evaluation_errors_clear)
/* As evaluate_graph, and the errors, which the caller clears whatever comes back. plain: limits by type,
 * which say what is wide. Takes several times as long. */
GPtrArray *evaluate_graph_errors(const Graph *graph, Tensor *const *inputs, const ErrorModel *model,
                                 const double *plain, EvaluationErrors *errors, GError **error);
