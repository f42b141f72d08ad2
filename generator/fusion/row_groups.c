/* Rewrite join_rows: kernels of the same rows become one row program. Beside a row operator's group that are groups of
 * further row operators along the same axes of as large a tensor, or along the innermost of them, and of elementwise nodes of
 * its elements, of what the latter leave or of rows, in front, between, behind, or beside it reading the same. Of those that may join, the one goes first that saves most bytes,
 * until the judge says that registers are full: so kernels are cut where fewest bytes cross.
 *
 *   h = Add(x, r)   y = RMSNormalization(h)          h is an output: one kernel that adds, stores h, and goes on */
#include "generator/fusion/private.h"

typedef struct {
  Fuser *fuser;
  Group *group;
  const GraphNode *rows;  /* a row operator of it */
  GHashTable *refused;    /* groups that may not join */
  const GraphTensor *via; /* the best so far shares it */
  Group *best;
  double saves; /* bits of an element */
} RowGroup;

/* ---- who belongs to the rows ---- */

/* One value for all indices of the axes: they have extent 1, or are gone. */
static bool is_without(const GraphTensor *tensor, const GraphTensor *source, uint32_t axes)
{
  bool kept = tensor->rank == source->rank;
  unsigned at = 0;
  if (!kept && tensor->rank + (unsigned)__builtin_popcount(axes) != source->rank) return false;
  for (unsigned i = 0; i < source->rank; i++) {
    bool reduced = axes >> i & 1;
    if (reduced && !kept) continue;
    const Symbolic *extent = tensor->shape[at++];
    if (reduced ? !symbolic_equals(extent, 1) : !symbolic_same(extent, source->shape[i])) return false;
  }
  return true;
}

static bool is_per_row(const GraphTensor *tensor, const GraphNode *rows)
{
  return is_without(tensor, rows->inputs[0], rows->axes);
}

/* The innermost of several axes that are columns, if its extent is known; else 0. */
static uint32_t group_axis(const GraphNode *rows)
{
  uint32_t last = 1u << (rows->inputs[0]->rank - 1);
  bool known = symbolic_is_constant(rows->inputs[0]->shape[rows->inputs[0]->rank - 1], NULL);
  return rows->axes != last && rows->axes & last && known ? last : 0;
}

/* One value for so many columns that lie side by side, with its dimension of 1. */
static bool is_per_group(const GraphTensor *tensor, const GraphNode *rows)
{
  const GraphTensor *source = rows->inputs[0];
  uint32_t group = group_axis(rows);
  return group && tensor->rank == source->rank && is_without(tensor, source, group);
}

static bool reduces_groups(const GraphNode *node, const GraphNode *rows)
{
  return group_axis(rows) && node->axes == group_axis(rows) && is_per_group(node->outputs[0], rows);
}

/* One element a row at a loaded index, or where elements lie in their row. */
static bool indexes_rows(const GraphNode *node, const GraphNode *rows)
{
  const GraphTensor *result = node->outputs[0];
  if (node->op->id == ONNX_IndexAlong)
    return node->axes == rows->axes && graph_same_shape(result, rows->inputs[0]);
  bool gathers = node->op->id == ONNX_Gather || node->op->id == ONNX_GatherElements;
  return gathers && result->rank == rows->inputs[0]->rank && is_per_row(result, rows);
}

static bool is_of_rows(const GraphNode *node, const GraphNode *rows)
{
  switch (node->op->class_) {
  case OPERATOR_ROW:
    return graph_same_shape(node->inputs[0], rows->inputs[0]) &&
           (node->axes == rows->axes || reduces_groups(node, rows));
  case OPERATOR_ELEMENTWISE:
    return graph_same_shape(node->outputs[0], rows->inputs[0]) || is_per_row(node->outputs[0], rows) ||
           is_per_group(node->outputs[0], rows);
  case OPERATOR_GEMM:
  case OPERATOR_INDEX: return indexes_rows(node, rows);
  case OPERATOR_SEQUENCES:
  case OPERATOR_LOOP:
  case OPERATOR_FUNCTION:
  case OPERATOR_VIEW: break;
  }
  return false;
}

/* May what the node reads come from its own kernel? Not through a view, and what has lost its dimensions lies along
 * others for an operator of whole rows. */
static bool reads_in_place(const RowGroup *at, const GraphNode *node, const Group *other)
{
  for (unsigned i = 0; i < node->n_inputs; i++) {
    const GraphTensor *input = node->inputs[i];
    for (unsigned j = 0; j < fuser_n_writers(input); j++) {
      const GraphNode *producer = fuser_writer(at->fuser, input, j);
      const Group *group = producer ? fuser_group(at->fuser, producer) : NULL;
      if (!group || (group != at->group && group != other)) continue;
      if (node->op->id == ONNX_IndexAlong) continue; /* only its shape counts */
      if (node->op->class_ == OPERATOR_INDEX) return false;
      if (fuser_is_view(input) || input->n_parts) return false;
      if (input->rank != node->outputs[0]->rank && input->rank != at->rows->inputs[0]->rank) return false;
    }
  }
  return true;
}

static bool waits_for_none(RowGroup *at, Group *group, Group *other)
{
  for (unsigned i = 0; i < group->nodes->len; i++)
    if (!fuser_is_acyclic(at->fuser, group->nodes->pdata[i], other, group)) return false;
  return true;
}

/* Of a kernel, which writes each out for all elements that a thread keeps; of short rows it keeps few, so that there may be more of
 * them, and of nodes. In f64 an element takes two registers and a function more operations, so that there are half as many. */
#define MOST_ROW_OPERATORS 8
#define MOST_OF_SHORT_ROWS 32
#define SHORT_ROW          512
#define MORE_STEPS         4

static unsigned count_row_operators(const Group *group)
{
  unsigned n = 0;
  for (unsigned i = 0; i < group->nodes->len; i++)
    n += ((GraphNode *)group->nodes->pdata[i])->op->class_ == OPERATOR_ROW;
  return n;
}

static bool has_short_rows(const RowGroup *at)
{
  const GraphTensor *source = at->rows->inputs[0];
  int64_t columns = 1, extent;
  for (unsigned d = 0; d < source->rank; d++) {
    if (!(at->rows->axes >> d & 1)) continue;
    if (!symbolic_is_constant(source->shape[d], &extent) || extent > SHORT_ROW) return false;
    columns *= extent;
  }
  return columns <= SHORT_ROW;
}

static unsigned most_row_operators(const RowGroup *at, bool few)
{
  unsigned most = few ? MOST_OF_SHORT_ROWS : MOST_ROW_OPERATORS;
  return at->rows->inputs[0]->type == NUMBER_F64 ? most / 2 : most;
}

static bool may_join(RowGroup *at, Group *other)
{
  const Fuser *fuser = at->fuser;
  bool few = has_short_rows(at);
  if (count_row_operators(at->group) + count_row_operators(other) > most_row_operators(at, few)) return false;
  if (other == at->group || other->absorbed || group_is_product(other) || other->mean_of) return false;
  if (g_hash_table_contains(at->refused, other)) return false;
  if (at->group->nodes->len + other->nodes->len > fuser->max_steps * (few ? MORE_STEPS : 1)) return false;
  if (at->group->work + other->work > fuser->max_work) return false;
  for (unsigned i = 0; i < other->nodes->len; i++)
    if (!is_of_rows(other->nodes->pdata[i], at->rows) || !reads_in_place(at, other->nodes->pdata[i], other))
      return false;
  for (unsigned i = 0; i < at->group->nodes->len; i++)
    if (!reads_in_place(at, at->group->nodes->pdata[i], other)) return false;
  return waits_for_none(at, other, at->group) && waits_for_none(at, at->group, other);
}

/* ---- what joining saves ---- */

static bool makes(const RowGroup *at, const Group *group, const GraphTensor *tensor)
{
  const GraphNode *producer = at->fuser->producers[tensor->index];
  return producer && fuser_group(at->fuser, producer) == group;
}

/* Nobody but the two groups reads the tensor. */
static bool stays_inside(const RowGroup *at, const Group *other, const GraphTensor *tensor)
{
  const GPtrArray *readers = at->fuser->readers[tensor->index];
  for (unsigned i = 0; i < readers->len; i++) {
    const Group *group = fuser_group(at->fuser, readers->pdata[i]);
    if (group != at->group && group != other) return false;
  }
  return !tensor->is_output;
}

/* A value of a row weighs little beside one of each element, and only if it need not leave the kernel. */
#define OF_A_ROW 0x1p-12

/* Bits of an element that cross memory no more: a read, and a write that nobody else needs. */
static double saved_by(const RowGroup *at, const Group *other, const GraphTensor *tensor)
{
  bool made = makes(at, at->group, tensor) || makes(at, other, tensor);
  unsigned crossings = 0;
  double share = graph_same_shape(tensor, at->rows->inputs[0]) ? 1 : OF_A_ROW;
  if (made) crossings = 1 + stays_inside(at, other, tensor);
  if (!made) crossings = share == 1 && group_reads(at->group, tensor) && group_reads(other, tensor);
  return crossings * share * (double)number_bits(tensor->type);
}

static double saved_bits(const RowGroup *at, const Group *other)
{
  double bits = 0;
  g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);
  for (unsigned i = 0; i < other->nodes->len; i++) {
    const GraphNode *node = other->nodes->pdata[i];
    for (unsigned j = 0; j < node->n_inputs; j++) {
      const GraphTensor *tensor = node->inputs[j];
      bool shared = tensor && (makes(at, at->group, tensor) || group_reads(at->group, tensor));
      if (shared && !makes(at, other, tensor) && g_hash_table_add(seen, (void *)tensor))
        bits += saved_by(at, other, tensor);
    }
    for (unsigned j = 0; j < node->n_outputs; j++) {
      const GraphTensor *tensor = node->outputs[j];
      if (tensor && group_reads(at->group, tensor) && g_hash_table_add(seen, (void *)tensor))
        bits += saved_by(at, other, tensor);
    }
  }
  return bits;
}

/* ---- one group ---- */

static void weigh(RowGroup *at, Group *other, const GraphTensor *via)
{
  if (!other || other == at->best || !may_join(at, other)) return;
  double saves = saved_bits(at, other);
  if (saves <= at->saves) return;
  at->best = other;
  at->via = via;
  at->saves = saves;
}

/* Who makes or reads a tensor of a node. */
static void weigh_around(RowGroup *at, const GraphNode *node, const GraphTensor *tensor)
{
  const Fuser *fuser = at->fuser;
  if (!tensor || fuser_is_view(tensor)) return;
  bool made =
      tensor->kind == TENSOR_COMPUTED && (is_per_row(tensor, at->rows) || is_per_group(tensor, at->rows));
  if (!made && !graph_same_shape(tensor, at->rows->inputs[0])) return;
  const GraphNode *producer = fuser->producers[tensor->index];
  if (producer) weigh(at, fuser_group(fuser, producer), tensor);
  const GPtrArray *readers = fuser->readers[tensor->index];
  unsigned first, last;
  fuser_nearest_readers(readers, node, &first, &last);
  for (unsigned i = first; i < last; i++)
    weigh(at, fuser_group(fuser, readers->pdata[i]), tensor);
}

static void find_best(RowGroup *at)
{
  at->best = NULL;
  at->saves = 0;
  for (unsigned i = 0; i < at->group->nodes->len; i++) {
    const GraphNode *node = at->group->nodes->pdata[i];
    for (unsigned j = 0; j < node->n_inputs; j++)
      weigh_around(at, node, node->inputs[j]);
    for (unsigned j = 0; j < node->n_outputs; j++)
      weigh_around(at, node, node->outputs[j]);
  }
}

/* What the judge says of both as one kernel; NULL: yes. */
static const char *refusal(const RowGroup *at)
{
  Fuser *fuser = at->fuser;
  const Program *program = fuser_joined_program(fuser, at->group, at->best);
  if (!program) return "the kernel would read and write too many tensors";
  ProgramVerdict verdict = fuser_judge_all(fuser, &program, 1, false);
  return verdict.taken ? NULL : verdict.why;
}

bool fuser_joins_rows(Fuser *fuser, Group *group, Group *other)
{
  g_autoptr(GHashTable) refused = g_hash_table_new(NULL, NULL);
  RowGroup at = {.fuser = fuser, .group = group, .rows = group->anchor, .refused = refused, .best = other};
  return may_join(&at, other) && !refusal(&at);
}

static void join_rows(RowGroup *at)
{
  Fuser *fuser = at->fuser;
  for (find_best(at); at->best; find_best(at)) {
    const GraphNode *other = at->best->nodes->pdata[0];
    const char *why = refusal(at);
    if (why) {
      g_hash_table_add(at->refused, at->best);
      fuser_note(fuser, "%s and %s meet in memory, at `%s`: %s", at->rows->op->name, other->op->name,
                 at->via->name, why);
      continue;
    }
    fuser_note(fuser, "%s and %s share a kernel, and `%s` in its registers", at->rows->op->name,
               other->op->name, at->via->name);
    fuser_absorb(fuser, at->group, at->best);
  }
}

void fusion_join_rows(Fuser *fuser)
{
  fuser_unindex(fuser); /* reductions of products have added nodes and tensors */
  fuser_index(fuser);
  for (unsigned i = 0; i < fuser->groups->len; i++) {
    Group *group = fuser->groups->pdata[i];
    if (group->absorbed || !group_is_row(group) || group->mean_of) continue;
    g_autoptr(GHashTable) refused = g_hash_table_new(NULL, NULL);
    RowGroup at = {.fuser = fuser, .group = group, .rows = group->anchor, .refused = refused};
    join_rows(&at);
  }
}
