/* Graph nodes as a program: axes, nodes (build_operators.c) and what leaves them. */
#include "generator/program/build_private.h"
#include <string.h>

/* ---- axes ---- */

static void add_elementwise_axes(ProgramBuilder *at)
{
  const GraphNode *last = at->group->nodes[at->group->n - 1];
  const GraphTensor *result = last->outputs[0];
  for (unsigned i = 0; i < result->rank; i++)
    at->point[i] = program_add_axis(at, 'i', result->rank > 1 ? (int)i : -1, result->shape[i]);
  at->point_rank = result->rank;
}

/* Rows and columns, each numbered if there are several. */
static void add_row_axes(ProgramBuilder *at)
{
  const GraphTensor *source = at->anchor->inputs[0];
  int columns = __builtin_popcount(at->anchor->axes), rows = (int)source->rank - columns, row = 0, column = 0;
  for (unsigned i = 0; i < source->rank; i++) {
    bool reduced = at->anchor->axes >> i & 1;
    int number = reduced ? (columns > 1 ? column++ : -1) : rows > 1 ? row++ : -1;
    at->point[i] = program_add_axis(at, reduced ? 'c' : 'r', number, source->shape[i]);
    at->whole[i] = at->point[i];
    if (reduced)
      at->reduced |= 1u << at->point[i];
    else
      at->left[at->left_rank++] = at->point[i];
  }
  at->point_rank = at->whole_rank = source->rank;
}

/* Batches, then rows of A and columns of B if these are no vectors, then what is summed over. */
static void add_product_axes(ProgramBuilder *at)
{
  const GraphNode *node = at->anchor;
  const GraphTensor *a = node->inputs[0], *b = node->inputs[1], *result = node->outputs[0];
  bool has_m = a->rank > 1, has_n = b->rank > 1;
  bool grouped = node->op->id == ONNX_GroupedMatMul;
  unsigned batches = result->rank - has_m - has_n, n = 0;
  if (grouped && !batches) at->groups = program_add_axis(at, 'g', -1, b->shape[0]);
  for (unsigned i = 0; i < batches; i++)
    at->point[n++] = program_add_axis(at, 'b', batches > 1 ? (int)i : -1, result->shape[i]);
  at->m = at->n = PROGRAM_NONE;
  if (has_m) at->m = at->point[n++] = program_add_axis(at, 'm', -1, result->shape[batches]);
  if (has_n) at->n = at->point[n++] = program_add_axis(at, 'n', -1, result->shape[result->rank - 1]);
  at->point_rank = n;
  if (node->axes) at->batch = program_add_axis(at, 's', -1, a->shape[0]);
  at->k = program_add_axis(at, 'k', -1, a->shape[a->rank - (graph_is_transposed(node, 0) ? 2 : 1)]);
  if (grouped && batches) at->groups = at->point[0];
  if (grouped) program_add_groups(at, node);
}

/* Batches, rows, keys; then columns of the second product and what the first one sums over. */
static void add_chained_axes(ProgramBuilder *at)
{
  const GraphTensor *q = at->anchor->inputs[0], *scores = at->anchor->outputs[0],
                    *result = at->second->outputs[0];
  unsigned batches = scores->rank - 2;
  for (unsigned i = 0; i < batches; i++)
    at->whole[i] = at->left[i] = program_add_axis(at, 'b', batches > 1 ? (int)i : -1, scores->shape[i]);
  at->m = at->whole[batches] = at->left[batches] = program_add_axis(at, 'm', -1, scores->shape[batches]);
  at->keys = at->whole[batches + 1] = program_add_axis(at, 't', -1, scores->shape[batches + 1]);
  at->width = at->left[batches + 1] = program_add_axis(at, 'e', -1, result->shape[batches + 1]);
  at->depth = program_add_axis(at, 'd', -1, q->shape[q->rank - (graph_is_transposed(at->anchor, 0) ? 2 : 1)]);
  at->reduced = 1u << at->keys;
  at->whole_rank = at->left_rank = batches + 2;
}

/* ---- what leaves ---- */

bool program_sums_rows(const GraphNode *node)
{
  const GraphTensor *source = node->inputs[0], *result = node->outputs[0];
  bool rows = source->rank >= 2 && node->axes == (1u << (source->rank - 1)) - 1;
  return node->op->id == ONNX_ReduceSum && rows && result->rank == 2 &&
         (source->rank > 2 || !symbolic_equals(result->shape[0], 1));
}

/* Parts of what the node reads are reduced as they are written. */
static bool leaves_parts(const ProgramBuilder *at, const GraphNode *node)
{
  return node->op->class_ == OPERATOR_ROW && ((at->product && !at->second) || program_sums_rows(node));
}

static void add_write(ProgramBuilder *at, const GraphNode *node, const GraphTensor *tensor)
{
  bool parts = leaves_parts(at, node);
  program_stand_at(at, tensor);
  const ProgramValue *value = g_hash_table_lookup(at->values, tensor);
  ProgramNode write = {.kind = NODE_WRITE,
                       .source = node,
                       .type = tensor->type,
                       .compute = tensor->type,
                       .access =
                           parts ? program_parts_access(at, node, tensor) : program_point_access(at, tensor),
                       .combines = parts};
  if (parts) write.reduction = program_reduction_of(node->op->id);
  const ProgramNode *from =
      value->kind == VALUE_NODE ? &g_array_index(at->nodes, ProgramNode, value->node) : NULL;
  if (from && program_sorts(from)) /* also where a copy writes it and does nothing else */
    write.access = program_first_access(at, from->source, tensor);
  program_add_node(at, write, value, 1, tensor->type);
}

static void add_writes(ProgramBuilder *at)
{
  const ProgramGroup *group = at->group;
  for (unsigned i = 0; i < group->n; i++)
    for (unsigned j = 0; j < group->nodes[i]->n_outputs; j++) {
      const GraphTensor *tensor = group->nodes[i]->outputs[j];
      if (!tensor || !group->leaves(tensor, group->data)) continue;
      if (program_joins_rows(at, group->nodes[i]))
        program_write_joined(at, group->nodes[i], j);
      else
        add_write(at, group->nodes[i], tensor);
    }
}

/* ---- the whole ---- */

static void find_anchor(ProgramBuilder *at)
{
  const GraphNode *row = NULL;
  for (unsigned i = 0; i < at->group->n; i++) {
    const GraphNode *node = at->group->nodes[i];
    if (node->op->class_ == OPERATOR_GEMM && !at->anchor) at->anchor = node;
    if (node->op->class_ == OPERATOR_ROW && !program_sums_rows(node) &&
        (!row || __builtin_popcount(node->axes) >= __builtin_popcount(row->axes)))
      row = node; /* others may reduce parts of its rows */
    if (node->op->class_ == OPERATOR_GEMM && node != at->anchor && at->group->chained) at->second = node;
  }
  at->product = at->anchor != NULL;
  if (!at->product) at->anchor = row;
}

/* What is computed from the second product's result. */
static void find_behind(ProgramBuilder *at)
{
  for (unsigned i = 0; at->second && i < at->group->n; i++) {
    const GraphNode *node = at->group->nodes[i];
    bool behind = node == at->second;
    for (unsigned j = 0; j < node->n_inputs && !behind; j++)
      behind = node->inputs[j] && g_hash_table_contains(at->behind, node->inputs[j]);
    for (unsigned j = 0; behind && j < node->n_outputs; j++)
      if (node->outputs[j]) g_hash_table_add(at->behind, node->outputs[j]);
  }
}

static void add_nodes(ProgramBuilder *at)
{
  for (unsigned i = 0; i < at->group->n; i++) {
    const GraphNode *node = at->group->nodes[i];
    if (program_gathers_pages(at, node) || program_is_widener(at, node) || program_joins_rows(at, node))
      continue; /* who multiplies them reads them */
    program_stand_at(at, node->op->class_ == OPERATOR_ROW ? node->inputs[0] : node->outputs[0]);
    switch (node->op->class_) {
    case OPERATOR_GEMM: program_add_product(at, node); break;
    case OPERATOR_ROW:
      if (leaves_parts(at, node))
        program_set_value(at, node->outputs[0], program_operand(at, node, node->inputs[0]));
      else
        program_add_row(at, node);
      break;
    case OPERATOR_ELEMENTWISE:
    case OPERATOR_VIEW: program_add_elementwise(at, node); break;
    case OPERATOR_INDEX: program_add_indexed(at, node); break;
    case OPERATOR_SEQUENCES:
    case OPERATOR_LOOP:            /* cut out of what is fused */
    case OPERATOR_FUNCTION: break; /* expanded when the graph was read */
    }
  }
}

/* What is a kernel of its own. */
static const GraphNode *find_sequences(const ProgramGroup *group)
{
  bool alone = group->n == 1 && group->nodes[0]->op->class_ == OPERATOR_SEQUENCES;
  return alone ? group->nodes[0] : NULL;
}

Program *program_build(const ProgramGroup *group)
{
  Program *program = arena_new_object(group->arena, Program);
  g_autoptr(GHashTable) values = g_hash_table_new(NULL, NULL), behind = g_hash_table_new(NULL, NULL);
  g_autoptr(GArray) nodes = g_array_new(FALSE, TRUE, sizeof(ProgramNode));
  ProgramBuilder at = {.group = group,
                       .program = program,
                       .values = values,
                       .behind = behind,
                       .nodes = nodes,
                       .batch = PROGRAM_NONE,
                       .groups = PROGRAM_NONE,
                       .counted = PROGRAM_NONE,
                       .begin = PROGRAM_NONE};
  program->arena = group->arena;
  program->name = group->name;
  program->facts = &group->graph->facts;
  find_anchor(&at);
  find_behind(&at);
  const GraphNode *sequences = find_sequences(group);
  if (sequences && sequences->op->id == ONNX_AppendRows)
    program_append_rows(&at, sequences);
  else if (sequences && program_is_places(sequences))
    program_add_places(&at, sequences);
  else if (sequences && sequences->op->id == ONNX_AttentionGradPart)
    program_add_gradient(&at, sequences);
  else if (sequences)
    program_add_sequences(&at, sequences);
  else if (at.second)
    add_chained_axes(&at);
  else if (at.product)
    add_product_axes(&at);
  else if (at.anchor)
    add_row_axes(&at);
  else
    add_elementwise_axes(&at);
  if (!sequences) {
    add_nodes(&at);
    add_writes(&at);
  }
  program->n_nodes = nodes->len;
  program->nodes = arena_memdup(group->arena, nodes->data, nodes->len * sizeof(ProgramNode));
  program_settle(program);
  return program;
}
