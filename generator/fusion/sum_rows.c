/* Rewrite sum_rows: sums over all rows of a tensor, of each column, beside operators of its rows. The kernel of these keeps a sum of each column over
 * some rows, which a block takes one after the other, and a row kernel adds these up, in their order: nobody reads the tensor again. Of known
 * rows as many a block as all SMs need to have them in one go, SUMMED_ROWS at least.
 *
 *   dx = gradient of a norm (x, dy, g)   dg = ReduceSum(dy * normalised(x), 0)    becomes
 *   dx, P = the same, with sums of so many rows each     dg = ReduceSum(P, 0)
 *
 * Several such sums beside one kernel's rows are added up by one kernel. */
#include "generator/fusion/private.h"
#include <math.h>

#define FEW_SUMS    64   /* blocks, of which a GPU has no use */
#define PARTS_ALIGN 16   /* bytes, of a tensor in the workspace */
#define FEW_COLUMNS 1024 /* of which sums over many parts are divided among more blocks, one by one */

typedef struct {
  Fuser *fuser;
  Group *rows, *sums; /* operators of rows; the sum's */
  GPtrArray *before;  /* its nodes in front of the sum */
} Summing;

static bool is_sum(const Group *group)
{
  const GraphNode *anchor = group->anchor;
  if (group->absorbed || !group_is_row(group) || group->mean_of || anchor->op->id != ONNX_ReduceSum)
    return false;
  const GraphTensor *source = anchor->inputs[0];
  /* what adds up the parts, which are a matrix, has no more dimensions than that */
  return source->rank >= 2 && anchor->axes == (1u << (source->rank - 1)) - 1 &&
         (source->rank == 2 || anchor->outputs[0]->rank == 1) &&
         program_compute(source->type) == NUMBER_F32 && !program_sums_rows(anchor);
}

static const Symbolic *rows_of(const Fuser *fuser, const GraphTensor *source)
{
  const Symbolic *rows = source->shape[0];
  for (unsigned d = 1; d + 1 < source->rank; d++)
    rows = symbolic_mul(fuser->arena, rows, source->shape[d]);
  return rows;
}

static bool has_many_rows(const Fuser *fuser, const GraphTensor *source)
{
  int64_t least, most;
  symbolic_range(rows_of(fuser, source), &fuser->graph->facts, &least, &most);
  return most >= (int64_t)FEW_SUMS * SUMMED_ROWS;
}

/* Operators of the rows of as large a tensor. */
static bool are_rows(const Group *group, const GraphTensor *source)
{
  const GraphNode *anchor = group->anchor;
  return !group->absorbed && group_is_row(group) && !group->mean_of &&
         anchor->axes == 1u << (source->rank - 1) && graph_same_shape(anchor->inputs[0], source);
}

static bool is_of(const Summing *at, const GraphNode *producer, const Group *group)
{
  return producer && fuser_group(at->fuser, producer) == group;
}

/* What the sum is computed from is what the rows' kernel has or reads, and tensors of the graph. *shared: some of it is as large as the
 * tensor. */
static bool reads_rows(const Summing *at, const GraphNode *node, bool *shared)
{
  const GraphTensor *source = at->sums->anchor->inputs[0];
  unsigned n = node == at->sums->anchor ? 1 : node->n_inputs;
  for (unsigned i = 0; i < n; i++) {
    const GraphTensor *input = node->inputs[i];
    if (!input) continue;
    if (fuser_is_view(input) || input->n_parts) return false;
    const GraphNode *producer = at->fuser->producers[input->index];
    if (is_of(at, producer, at->sums)) continue;
    bool made = is_of(at, producer, at->rows);
    if (producer && !made) return false;
    *shared |= graph_same_shape(input, source) && (made || group_reads(at->rows, input));
  }
  return true;
}

static bool find_before(Summing *at)
{
  bool shared = false;
  const GPtrArray *nodes = at->sums->nodes;
  for (unsigned i = 0; i < nodes->len; i++) {
    GraphNode *node = nodes->pdata[i];
    if (node->index > at->sums->anchor->index) continue;
    if (!reads_rows(at, node, &shared)) return false;
    if (node != at->sums->anchor) g_ptr_array_add(at->before, node);
  }
  return shared && at->rows->nodes->len + at->before->len + 1 < at->fuser->max_steps &&
         !fuser_waits_for(at->fuser, at->rows, at->sums);
}

static GraphTensor *new_parts(Summing *at)
{
  Fuser *fuser = at->fuser;
  const GraphNode *anchor = at->sums->anchor;
  const GraphTensor *source = anchor->inputs[0];
  const Symbolic *rows = symbolic_constant(fuser->arena, SUMMED_ROWS),
                 *shape[] = {symbolic_ceil_div(fuser->arena, rows_of(fuser, source), rows),
                             source->shape[source->rank - 1]};
  const char *name = arena_printf(fuser->arena, "%s.sums%u", source->name, fuser->tensors->len);
  GraphTensor *tensor = fuser_new_tensor(fuser, name, NUMBER_F32, anchor->mark, shape, 2);
  tensor->align = PARTS_ALIGN;
  return tensor;
}

static bool take_sum(Summing *at)
{
  Fuser *fuser = at->fuser;
  GraphNode *anchor = at->sums->anchor, *node = arena_memdup(fuser->arena, anchor, sizeof *anchor);
  fuser_unindex(fuser); /* a tensor joins, and then the node */
  GraphTensor *parts = new_parts(at), *source = anchor->inputs[0];
  node->name = "";
  node->inputs = arena_new_array(fuser->arena, GraphTensor *, 1);
  node->outputs = arena_new_array(fuser->arena, GraphTensor *, 1);
  node->inputs[0] = source;
  node->outputs[0] = parts;
  node->n_inputs = node->n_outputs = 1;
  node->index = fuser->nodes->len;
  parts->producer = node;
  fuser_index(fuser);
  bool taken =
      fuser_takes_reduction(fuser, at->rows, at->before, node,
                            arena_printf(fuser->arena, "the sum of `%s` over its rows", source->name));
  fuser_unindex(fuser);
  if (!taken) {
    g_ptr_array_set_size(fuser->tensors, (gint)parts->index);
    fuser_index(fuser);
    return false;
  }
  for (unsigned i = 0; i < at->before->len; i++) {
    GraphNode *before = at->before->pdata[i];
    g_ptr_array_remove(at->sums->nodes, before);
    fuser_join(fuser, at->rows, before);
  }
  fuser_add_node(fuser, node);
  fuser_join(fuser, at->rows, node);
  fuser_sort(at->rows->nodes);
  anchor->inputs[0] = parts;
  anchor->axes = 1;
  fuser_index(fuser);
  fuser_settle_levels(fuser, at->rows);
  return true;
}

/* A row of blocks that all SMs have at once leaves none of them idle: a few blocks more than that would take as long again. */
static int64_t choose_rows(Fuser *fuser, const Group *sums)
{
  const GraphTensor *parts = sums->anchor->inputs[0];
  int64_t rows;
  const Symbolic *all = rows_of(fuser, parts->producer->inputs[0]);
  ProgramVerdict verdict = fuser_judge(fuser, fuser_group(fuser, parts->producer), NULL, false);
  if (!symbolic_is_constant(all, &rows) || verdict.at_once < 1) return SUMMED_ROWS;
  return MAX(SUMMED_ROWS, (int64_t)ceil((double)rows / verdict.at_once));
}

/* What one kernel sums it sums over as many rows. */
static void settle_rows(Fuser *fuser, const GPtrArray *taken)
{
  g_autofree int64_t *rows = g_new0(int64_t, taken->len + 1);
  for (unsigned i = 0; i < taken->len; i++)
    rows[i] = choose_rows(fuser, taken->pdata[i]);
  for (unsigned i = 0; i < taken->len; i++) {
    const Group *sums = taken->pdata[i];
    GraphTensor *parts = sums->anchor->inputs[0];
    const GraphNode *node = parts->producer;
    parts->shape[0] = symbolic_ceil_div(fuser->arena, rows_of(fuser, node->inputs[0]),
                                        symbolic_constant(fuser->arena, rows[i]));
    fuser_note(
        fuser, "sums of `%s` over each %d rows are kept where %s computes these, a row kernel adds them up",
        node->inputs[0]->name, (int)program_summed_rows(node), fuser_group(fuser, node)->anchor->op->name);
  }
}

static bool has_few_columns(const GraphTensor *parts)
{
  int64_t columns;
  return !symbolic_is_constant(parts->shape[1], &columns) || columns < FEW_COLUMNS;
}

/* What adds up parts that one kernel leaves is one kernel, too. */
static void join_sums(Fuser *fuser, GPtrArray *taken)
{
  for (unsigned i = 0; i < taken->len; i++) {
    Group *first = taken->pdata[i];
    for (unsigned j = i + 1; j < taken->len && !first->absorbed; j++) {
      Group *other = taken->pdata[j];
      const GraphTensor *a = first->anchor->inputs[0], *b = other->anchor->inputs[0];
      bool alike =
          !other->absorbed && !has_few_columns(a) && graph_same_shape(a, b) &&
          fuser_group(fuser, fuser->producers[a->index]) == fuser_group(fuser, fuser->producers[b->index]);
      if (!alike || !fuser_joined_program(fuser, first, other)) continue;
      fuser_note(fuser, "`%s` and `%s` are added up together", a->name, b->name);
      fuser_absorb(fuser, first, other);
    }
  }
}

void fusion_sum_rows(Fuser *fuser)
{
  unsigned n = fuser->groups->len;
  g_autoptr(GPtrArray) taken = g_ptr_array_new();
  for (unsigned i = 0; i < n; i++) {
    Group *sums = fuser->groups->pdata[i];
    if (!is_sum(sums) || !has_many_rows(fuser, sums->anchor->inputs[0])) continue;
    for (unsigned j = 0; j < n; j++) {
      Group *rows = fuser->groups->pdata[j];
      g_autoptr(GPtrArray) before = g_ptr_array_new();
      Summing at = {.fuser = fuser, .rows = rows, .sums = sums, .before = before};
      if (!are_rows(rows, sums->anchor->inputs[0]) || !find_before(&at)) continue;
      if (take_sum(&at)) g_ptr_array_add(taken, sums);
      break;
    }
  }
  settle_rows(fuser, taken);
  join_sums(fuser, taken);
}
