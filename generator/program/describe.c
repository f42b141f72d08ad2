/* What a program is, in the words of those who write kernels: for refusals. */
#include "generator/program/program.h"

typedef struct {
  const Program *program;
  const ProgramNode *place;
  unsigned contractions, reductions, scans;
} Description;

static bool is_contraction(const ProgramNode *node)
{
  return node->kind == NODE_REDUCE && node->reduction == REDUCTION_DOT;
}

/* Does a contraction read the node as an operand? */
static bool is_operand(const Program *program, unsigned read)
{
  for (unsigned i = 0; i < program->n_nodes; i++)
    for (unsigned j = 0; is_contraction(&program->nodes[i]) && j < program->nodes[i].n_operands; j++) {
      const ProgramValue *value = &program->nodes[i].operands[j];
      if (value->kind == VALUE_NODE && value->node == read) return true;
    }
  return false;
}

static void count(Description *at)
{
  for (unsigned i = 0; i < at->program->n_nodes; i++) {
    const ProgramNode *node = &at->program->nodes[i];
    at->contractions += is_contraction(node);
    at->reductions += node->kind == NODE_REDUCE && !is_contraction(node);
    at->scans += node->kind == NODE_SCAN;
  }
}

/* One reduction takes another one's results. */
static const ProgramNode *nested(const Program *program)
{
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    if (node->kind != NODE_REDUCE) continue;
    g_autofree bool *from = program_ancestors(program, i);
    for (unsigned j = 0; j < i; j++)
      if (from[j] && program->nodes[j].kind == NODE_REDUCE) return node;
  }
  return NULL;
}

static const char *subject(Description *at)
{
  const Program *program = at->program;
  const ProgramNode *inner = nested(program);
  for (unsigned i = 0; i < program->n_nodes && !at->place; i++)
    if (program->nodes[i].kind == NODE_REDUCE || program->nodes[i].kind == NODE_SCAN)
      at->place = &program->nodes[i];
  if (inner) at->place = inner;
  if (inner && is_contraction(inner)) return "a contraction of another reduction's results";
  if (inner) return at->contractions ? "a reduction of a contraction's results" : "a reduction of reductions";
  if (at->scans) return at->contractions ? "a scan of a contraction's results" : "a scan";
  if (at->contractions && at->reductions) return "a contraction beside another reduction";
  if (at->contractions > 1) return "several contractions";
  if (at->contractions) return "a contraction";
  if (at->reductions > 1) return "several reductions";
  return at->reductions ? "a reduction of rows" : "an elementwise operator";
}

static const char *with_access(Description *at, unsigned i)
{
  const Program *program = at->program;
  const ProgramNode *node = &program->nodes[i];
  bool read = node->kind == NODE_READ, operand = read && is_operand(program, i);
  for (unsigned d = 0; d < node->access.tensor->rank; d++)
    if (node->access.at[d].node != PROGRAM_NONE)
      return operand ? "a gathered operand" : read ? "a gathered input" : "a scattered result";
  if (node->access.outside == OUTSIDE_FILL) return operand ? "a padded operand" : "a padded input";
  if (node->access.outside == OUTSIDE_SKIP) return "a clipped result";
  if (node->kind == NODE_WRITE && node->combines) return "results that are combined";
  for (unsigned d = 0; d < node->access.tensor->rank; d++) {
    uint32_t axes = program_axes_in(program, node->access.at[d].of_axes);
    if (operand && __builtin_popcount(axes) > 1) return "an operand whose index is a sum of axes";
    for (unsigned axis = 0; axis < program->n_axes; axis++)
      if (!program_step(program, program->arena, node->access.at[d].of_axes, axis))
        return operand ? "an operand at divided indices"
               : read  ? "an input at divided indices"
                       : "a result at divided indices";
  }
  return NULL;
}

/* What is unusual about it; NULL: nothing of these. */
static const char *with(Description *at)
{
  const Program *program = at->program;
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    const char *what = node->kind == NODE_READ || node->kind == NODE_WRITE ? with_access(at, i)
                       : node->kind == NODE_INDEX                          ? "an index as a value"
                                                                           : NULL;
    if (what) {
      at->place = node;
      return what;
    }
  }
  for (unsigned i = 0; i < program->n_axes; i++)
    if (program->axes[i].length != PROGRAM_NONE) {
      at->place = &program->nodes[program->axes[i].length];
      return "an axis whose length is loaded";
    }
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    if (!is_contraction(node)) continue;
    if (__builtin_popcount(node->axes) > 1) return "several contracted axes";
    for (unsigned j = 0; j < node->n_operands; j++)
      if (node->operands[j].kind != VALUE_NODE || program->nodes[node->operands[j].node].kind != NODE_READ)
        return "a computed operand";
  }
  return NULL;
}

const char *program_describe(const Program *program, const ProgramNode **place)
{
  Description at = {.program = program};
  count(&at);
  const char *what = subject(&at), *more = with(&at);
  if (!at.place && program->n_nodes) at.place = &program->nodes[program->n_nodes - 1];
  if (place) *place = at.place;
  return more ? arena_printf(program->arena, "%s with %s", what, more) : what;
}
