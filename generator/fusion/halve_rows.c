/* Rewrite halve_rows: what is computed of rows whose halves then go different ways is computed of halves from the start, and
 * reductions are taken of both: so a norm stands in the kernel of the positions that turn its halves.
 *
 *   y = RMSNormalization(x, g)   y1, y2 = Split(y)
 *
 * becomes x1, x2 = Split(x), y1 = x1 i g1, y2 = x2 i g2, i the reciprocal root of what x1 x1 and x2 x2 are in the mean. A
 * Transpose of rows between goes up to what is read. What a product's kernel computes stays as it is. */
#include "generator/fusion/private.h"
#include <string.h>

#define MOST_DEEP 20 /* nodes that halves go up through */

typedef struct {
  GraphTensor *of[2]; /* both the same of one value a row */
} Halves;

typedef struct {
  Fuser *fuser;
  GPtrArray *live;
  GraphNode **producers; /* by tensor index, of live nodes */
  GraphNode *root;       /* gives what is halved */
  GraphNode *turn;       /* a Transpose between; NULL: there is none */
  const Symbolic *columns, *half;
  GHashTable *nodes, *halves; /* what is computed of halves: nodes, and Halves by tensor */
  bool has_rows, refused;
  guint place; /* of the next node */
} Halving;

static GraphNode *producer_of(const Halving *at, const GraphTensor *tensor)
{
  return fuser_computes(at->producers, tensor);
}

static bool reads(const GraphNode *node, const GraphTensor *tensor)
{
  for (unsigned i = 0; i < node->n_inputs; i++)
    if (node->inputs[i] == tensor) return true;
  return false;
}

/* ---- who takes halves ---- */

/* Which half of what it reads the node gives: 0, 1, or 2 for both; -1: it gives none. */
static int half_given(const GraphNode *node)
{
  const GraphTensor *x = node->inputs[0], *first = node->outputs[0];
  if (!x || !x->rank || !first) return -1;
  unsigned last = x->rank - 1;
  int64_t columns, half;
  bool split = node->op->id == ONNX_Split && node->n_outputs == 2 && node->axes == 1u << last,
       slice = node->op->id == ONNX_Slice && node->steps[last] == 1;
  if ((!split && !slice) || !symbolic_is_constant(x->shape[last], &columns)) return -1;
  if (!symbolic_is_constant(first->shape[last], &half) || 2 * half != columns) return -1;
  for (unsigned d = 0; slice && d < last; d++)
    if (node->steps[d] != 1 || !symbolic_same(x->shape[d], first->shape[d])) return -1;
  if (split) return 2;
  return symbolic_equals(node->firsts[last], 0) ? 0 : symbolic_equals(node->firsts[last], half) ? 1 : -1;
}

static bool is_for_steps(const Halving *at, const GraphNode *node)
{
  bool all = true;
  for (unsigned i = 0; i < at->live->len; i++) {
    const GraphNode *reader = at->live->pdata[i];
    for (unsigned j = 0; j < node->n_outputs; j++)
      if (node->outputs[j] && reads(reader, node->outputs[j]))
        all &= reader->op->class_ == OPERATOR_ELEMENTWISE;
  }
  return all;
}

/* All that reads the tensor is nodes that give halves of it to elementwise ones, and the graph does not give it. */
static bool is_halved(const Halving *at, const GraphTensor *tensor)
{
  bool any = false;
  for (unsigned i = 0; i < at->live->len; i++) {
    const GraphNode *node = at->live->pdata[i];
    if (!reads(node, tensor)) continue;
    if (half_given(node) < 0 || !is_for_steps(at, node)) return false;
    any = true;
  }
  return any && !tensor->is_output;
}

/* ---- what is computed of halves ---- */

static bool is_reduction(const GraphNode *node)
{
  OperatorId op = node->op->id;
  return node->keepdims && (op == ONNX_ReduceSum || op == ONNX_ReduceMean || op == ONNX_ReduceMax ||
                            op == ONNX_ReduceMin || op == ONNX_ReduceProd);
}

static bool is_norm(const GraphNode *node)
{
  bool one = true;
  for (unsigned i = 1; i < node->n_outputs; i++)
    one &= !node->outputs[i];
  return one && (node->op->id == ONNX_RMSNormalization || node->op->id == ONNX_LayerNormalization);
}

static bool is_whole(const Halving *at, const GraphTensor *tensor)
{
  return tensor->rank && symbolic_same(tensor->shape[tensor->rank - 1], at->columns);
}

static bool is_per_row(const GraphTensor *tensor)
{
  return tensor->rank && symbolic_equals(tensor->shape[tensor->rank - 1], 1);
}

static bool is_of_product(const Halving *at, const GraphTensor *tensor, unsigned deep)
{
  const GraphNode *node = producer_of(at, tensor);
  bool found = node && node->op->class_ == OPERATOR_GEMM;
  for (unsigned i = 0; node && deep && node->op->class_ == OPERATOR_ELEMENTWISE && i < node->n_inputs; i++)
    found |= is_of_product(at, node->inputs[i], deep - 1);
  return found;
}

static bool may_halve(const Halving *at, const GraphNode *node)
{
  const GraphTensor *result = node->outputs[0];
  if (result->is_output || result->rank != at->root->outputs[0]->rank) return false;
  if (node->op->class_ == OPERATOR_ELEMENTWISE)
    return node->n_outputs == 1 && node->op->shape_rule != SHAPE_RULE_QUANTIZE &&
           (is_whole(at, result) || is_per_row(result)) && !is_of_product(at, result, MOST_DEEP);
  return node->op->class_ == OPERATOR_ROW && (is_norm(node) || is_reduction(node)) &&
         is_whole(at, node->inputs[0]) && node->axes == 1u << (node->inputs[0]->rank - 1);
}

static void collect(Halving *at, const GraphTensor *tensor, unsigned deep)
{
  GraphNode *node = producer_of(at, tensor);
  if (!node || !deep || g_hash_table_contains(at->nodes, node) || !may_halve(at, node)) return;
  g_hash_table_add(at->nodes, node);
  for (unsigned i = 0; i < node->n_inputs; i++)
    collect(at, node->inputs[i], deep - 1);
}

/* Nobody else reads what the node gives. */
static bool stays_inside(const Halving *at, const GraphNode *node)
{
  for (unsigned i = 0; i < at->live->len && node != at->root; i++)
    if (reads(at->live->pdata[i], node->outputs[0]) && !g_hash_table_contains(at->nodes, at->live->pdata[i]))
      return false;
  return true;
}

/* What others read, too, is computed once, whole. */
static void prune(Halving *at)
{
  bool again = true;
  while (again) {
    again = false;
    at->has_rows = false;
    for (unsigned i = 0; i < at->live->len; i++) {
      const GraphNode *node = at->live->pdata[i];
      if (!g_hash_table_contains(at->nodes, node)) continue;
      bool inside = stays_inside(at, node);
      if (!inside) g_hash_table_remove(at->nodes, node);
      again |= !inside;
      at->has_rows |= inside && node->op->class_ == OPERATOR_ROW;
    }
  }
}

/* The tensor's halves, of a norm's result or of what is computed of one. */
static bool is_wanted(Halving *at, const GraphTensor *tensor)
{
  unsigned last = tensor->rank - 1;
  int64_t columns;
  at->root = producer_of(at, tensor);
  at->turn = at->root && at->root->op->id == ONNX_Transpose ? at->root : NULL;
  if (at->turn) {
    if (at->turn->order[last] != last) return false;
    at->root = producer_of(at, at->turn->inputs[0]);
  }
  if (!at->root || (at->root->op->class_ != OPERATOR_ELEMENTWISE && at->root->op->class_ != OPERATOR_ROW))
    return false;
  at->columns = tensor->shape[last];
  symbolic_is_constant(at->columns, &columns);
  at->half = symbolic_constant(at->fuser->arena, columns / 2);
  g_hash_table_remove_all(at->nodes);
  g_hash_table_remove_all(at->halves);
  collect(at, at->root->outputs[0], MOST_DEEP);
  if (!g_hash_table_contains(at->nodes, at->root) || !is_whole(at, at->root->outputs[0])) return false;
  for (unsigned i = 0; at->turn && i < at->live->len; i++)
    if (reads(at->live->pdata[i], at->turn->inputs[0]) && at->live->pdata[i] != at->turn) return false;
  prune(at);
  return at->has_rows && is_halved(at, tensor);
}

/* ---- nodes ---- */

static GraphTensor *new_tensor(Halving *at, const GraphTensor *like, NumberType type, const Symbolic *last)
{
  Arena *arena = at->fuser->arena;
  const Symbolic *shape[GRAPH_MAX_RANK];
  for (unsigned d = 0; d < like->rank; d++)
    shape[d] = like->shape[at->turn && like->rank == at->root->outputs[0]->rank ? at->turn->order[d] : d];
  shape[like->rank - 1] = last;
  return fuser_new_tensor(at->fuser, arena_printf(arena, "%s.half%u", like->name, at->fuser->tensors->len),
                          type, like->mark, shape, like->rank);
}

static GraphTensor *put(Halving *at, const GraphNode *for_, OperatorId op, GraphTensor *a, GraphTensor *b,
                        GraphTensor *result)
{
  Arena *arena = at->fuser->arena;
  GraphTensor *const inputs[] = {a, b};
  GraphNode *node = fuser_copy_node(at->fuser, for_, a, result);
  node->op = operator_of(op);
  node->inputs = arena_memdup(arena, inputs, sizeof inputs);
  node->n_inputs = b ? 2 : 1;
  node->attributes = arena_new_array(arena, GraphAttribute, node->op->n_attributes + 1);
  result->producer = node;
  g_ptr_array_insert(at->live, (gint)at->place++, node);
  return result;
}

/* Of f32, as wide as `a`, or one value a row. */
static GraphTensor *compute(Halving *at, const GraphNode *for_, OperatorId op, bool per_row, GraphTensor *a,
                            GraphTensor *b)
{
  Arena *arena = at->fuser->arena;
  const Symbolic *shape[GRAPH_MAX_RANK];
  memcpy(shape, a->shape, sizeof shape);
  if (per_row) shape[a->rank - 1] = symbolic_constant(arena, 1);
  const char *name = arena_printf(arena, "%s.half%u", for_->outputs[0]->name, at->fuser->tensors->len);
  GraphTensor *result = fuser_new_tensor(at->fuser, name, NUMBER_F32, for_->mark, shape, a->rank);
  return put(at, for_, op, a, b, result);
}

/* What is read, transposed as the rows are, and its halves. */
static Halves read_halves(Halving *at, const GraphNode *reader, GraphTensor *tensor)
{
  Arena *arena = at->fuser->arena;
  bool whole = is_whole(at, tensor), turns = at->turn && tensor->rank > 1;
  if (turns && tensor->rank != at->root->outputs[0]->rank) at->refused = true;
  if (at->refused) return (Halves){{tensor, tensor}};
  if (turns) {
    GraphTensor *turned = put(at, reader, ONNX_Transpose, tensor, NULL,
                              new_tensor(at, tensor, tensor->type, tensor->shape[tensor->rank - 1]));
    memcpy(turned->producer->order, at->turn->order, sizeof turned->producer->order);
    tensor = turned;
  }
  if (!whole) return (Halves){{tensor, tensor}};
  const GraphNode *turn = at->turn; /* it stands as it is turned now */
  at->turn = NULL;
  Halves halves = {
      {new_tensor(at, tensor, tensor->type, at->half), new_tensor(at, tensor, tensor->type, at->half)}};
  at->turn = (GraphNode *)turn;
  put(at, reader, ONNX_Split, tensor, NULL, halves.of[0]);
  GraphNode *split = halves.of[0]->producer;
  const Symbolic *const sizes[] = {at->half, at->half};
  split->axes = 1u << (tensor->rank - 1);
  split->outputs = arena_memdup(arena, halves.of, sizeof halves.of);
  split->n_outputs = 2;
  split->sizes = arena_memdup(arena, sizes, sizeof sizes);
  halves.of[1]->producer = split;
  return halves;
}

static Halves halves_of(Halving *at, const GraphNode *reader, GraphTensor *tensor)
{
  if (!tensor || graph_has_one_element(tensor)) return (Halves){{tensor, tensor}};
  const Halves *known = g_hash_table_lookup(at->halves, tensor);
  if (known) return *known;
  Halves halves = read_halves(at, reader, tensor);
  g_hash_table_insert(at->halves, tensor, arena_memdup(at->fuser->arena, &halves, sizeof halves));
  return halves;
}

/* ---- operators ---- */

static GraphTensor *reduced(Halving *at, const GraphNode *node, OperatorId op, GraphTensor *x)
{
  GraphTensor *result = compute(at, node, op, true, x, NULL);
  GraphNode *made = result->producer;
  made->axes = 1u << (x->rank - 1);
  made->keepdims = true;
  return result;
}

/* The reduction of both. */
static GraphTensor *together(Halving *at, const GraphNode *node, OperatorId op, const Halves *x)
{
  GraphTensor *first = reduced(at, node, op, x->of[0]), *second = reduced(at, node, op, x->of[1]);
  switch ((unsigned)op) {
  case ONNX_ReduceMax: return compute(at, node, ONNX_Max, false, first, second);
  case ONNX_ReduceMin: return compute(at, node, ONNX_Min, false, first, second);
  case ONNX_ReduceProd: return compute(at, node, ONNX_Mul, false, first, second);
  case ONNX_ReduceMean:
    return compute(at, node, ONNX_Mul, false, compute(at, node, ONNX_Add, false, first, second),
                   fuser_new_number(at->fuser, NUMBER_F32, 0.5));
  default: return compute(at, node, ONNX_Add, false, first, second);
  }
}

static Halves norm_halves(Halving *at, const GraphNode *node)
{
  NumberType type = node->outputs[0]->type;
  Halves x = halves_of(at, node, node->inputs[0]), squares, result;
  if (node->op->id == ONNX_LayerNormalization) {
    GraphTensor *mean = together(at, node, ONNX_ReduceMean, &x);
    for (unsigned i = 0; i < 2; i++)
      x.of[i] = compute(at, node, ONNX_Sub, false, x.of[i], mean);
  }
  for (unsigned i = 0; i < 2; i++)
    squares.of[i] = compute(at, node, ONNX_Mul, false, x.of[i], x.of[i]);
  GraphTensor *epsilon = fuser_new_number(at->fuser, NUMBER_F32, graph_attribute(node, "epsilon")->number);
  GraphTensor *mean = together(at, node, ONNX_ReduceMean, &squares);
  GraphTensor *root =
      compute(at, node, ONNX_Sqrt, false, compute(at, node, ONNX_Add, false, mean, epsilon), NULL);
  GraphTensor *inverse = compute(at, node, ONNX_Reciprocal, false, root, NULL);
  for (unsigned i = 0; i < 2; i++)
    result.of[i] = compute(at, node, ONNX_Mul, false, x.of[i], inverse);
  for (unsigned operand = 1; operand < node->n_inputs; operand++) { /* scale, bias */
    Halves factor = halves_of(at, node, node->inputs[operand]);
    for (unsigned i = 0; i < 2 && factor.of[i]; i++)
      result.of[i] = compute(at, node, operand == 1 ? ONNX_Mul : ONNX_Add, false, result.of[i], factor.of[i]);
  }
  for (unsigned i = 0; i < 2; i++)
    result.of[i]->type = type;
  return result;
}

/* The node itself of both halves, or of rows. */
static Halves step_halves(Halving *at, const GraphNode *node)
{
  Arena *arena = at->fuser->arena;
  const GraphTensor *output = node->outputs[0];
  bool whole = is_whole(at, output);
  g_autofree Halves *inputs = g_new0(Halves, node->n_inputs + 1);
  Halves result;
  for (unsigned i = 0; i < node->n_inputs; i++)
    inputs[i] = halves_of(at, node, node->inputs[i]);
  for (unsigned h = 0; h < 2; h++) {
    result.of[h] = h && !whole ? result.of[0]
                               : new_tensor(at, output, output->type,
                                            whole ? at->half : output->shape[output->rank - 1]);
    if (h && !whole) break;
    GraphNode *step = arena_memdup(arena, node, sizeof *node);
    step->inputs = arena_new_array(arena, GraphTensor *, node->n_inputs + 1);
    for (unsigned i = 0; i < node->n_inputs; i++)
      step->inputs[i] = inputs[i].of[h];
    step->outputs = arena_memdup(arena, &result.of[h], sizeof *step->outputs);
    result.of[h]->producer = step;
    g_ptr_array_insert(at->live, (gint)at->place++, step);
  }
  return result;
}

static Halves node_halves(Halving *at, const GraphNode *node)
{
  if (node->op->class_ == OPERATOR_ELEMENTWISE) return step_halves(at, node);
  if (is_norm(node)) return norm_halves(at, node);
  Halves x = halves_of(at, node, node->inputs[0]);
  GraphTensor *value = together(at, node, node->op->id, &x);
  value->type = node->outputs[0]->type;
  return (Halves){{value, value}};
}

/* ---- the whole ---- */

/* Who took halves reads these. */
static void give(Halving *at, const GraphTensor *tensor, const Halves *halves)
{
  g_autoptr(GPtrArray) nodes = g_ptr_array_copy(at->live, NULL, NULL);
  for (unsigned i = 0; i < nodes->len; i++) {
    GraphNode *node = nodes->pdata[i];
    if (!reads(node, tensor)) continue;
    int which = half_given(node);
    g_ptr_array_find(at->live, node, &at->place);
    g_ptr_array_remove_index(at->live, at->place);
    for (unsigned j = 0; j < node->n_outputs; j++) {
      GraphTensor *output = node->outputs[j], *half = halves->of[which == 2 ? j : (unsigned)which];
      if (!output) continue;
      if (output->is_output)
        put(at, node, ONNX_Identity, half, NULL, output);
      else
        fuser_replace_input(at->fuser, output, half);
    }
  }
}

static void halve(Halving *at, const GraphTensor *tensor)
{
  g_autoptr(GPtrArray) before = g_ptr_array_copy(at->live, NULL, NULL);
  const Halves *halves = NULL;
  at->refused = false;
  for (unsigned i = 0; i < before->len && !at->refused; i++) {
    GraphNode *node = before->pdata[i];
    if (!g_hash_table_contains(at->nodes, node)) continue;
    g_ptr_array_find(at->live, node, &at->place);
    Halves made = node_halves(at, node);
    halves = arena_memdup(at->fuser->arena, &made, sizeof made);
    g_hash_table_insert(at->halves, node->outputs[0], (void *)halves);
  }
  if (at->refused) { /* what was put among the nodes goes again */
    g_ptr_array_set_size(at->live, 0);
    g_ptr_array_extend(at->live, before, NULL, NULL);
    return;
  }
  fuser_note(at->fuser, "`%s` is computed of both halves of its rows", tensor->name);
  give(at, tensor, g_hash_table_lookup(at->halves, at->root->outputs[0]));
  fusion_drop_unread(at->fuser);
}

void fusion_halve_rows(Fuser *fuser)
{
  g_autoptr(GHashTable) nodes = g_hash_table_new(NULL, NULL), halves = g_hash_table_new(NULL, NULL);
  g_autoptr(GPtrArray) all = g_ptr_array_copy(fuser->live, NULL, NULL);
  Halving at = {.fuser = fuser, .live = fuser->live, .nodes = nodes, .halves = halves};
  at.producers = fuser_live_producers(fuser);
  for (unsigned i = 0; i < all->len; i++) {
    const GraphNode *node = all->pdata[i];
    if (!node->n_inputs || half_given(node) < 0) continue;
    /* The list is walked last: for every node it would take the square of their number. */
    bool stays = g_ptr_array_find(fuser->live, node, NULL);
    if (!stays || !is_wanted(&at, node->inputs[0])) continue;
    halve(&at, node->inputs[0]);
    g_free(at.producers);
    at.producers = fuser_live_producers(fuser);
  }
  g_free(at.producers);
}
