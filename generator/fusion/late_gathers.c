/* Rewrite late_gathers: what is computed of each of the rows that Permute spreads is computed of the tokens' rows, and then gathered:
 *
 *   r = Gather(x, source)   q, s = quantised(r)        becomes        q', s' = quantised(x)   q = Gather(q', source)   s = Gather(s', source)
 *
 * Several experts have a token, so there are more rows than tokens, and what is gathered takes fewer bytes. Only of places that
 * PlaceKeys tells, each of which is a token's (-1: the last one's): a Gather gives 0 for others, of which the same would have to be computed. */
#include "generator/fusion/private.h"
#include <limits.h>

#define SOURCES 2 /* of PlaceKeys' outputs */

typedef struct {
  Fuser *fuser;
  const GraphNode *gather;
  GHashTable *early; /* tensor of gathered rows -> what it is of rows as they lie; NULL before that is made */
  GHashTable *left;  /* of these, what other nodes read, or the graph gives: a set */
  GPtrArray *nodes;  /* that compute them, in order */
} Late;

static const GraphTensor *gathered(const Late *at)
{
  return at->gather->outputs[0];
}

/* Does it gather tokens' rows, fewer than there are places? */
static bool spreads_tokens(const GraphNode *node)
{
  if (node->op->id != ONNX_Gather || node->axes != 1 || node->inputs[1]->rank != 1) return false;
  const GraphTensor *x = node->inputs[0], *source = node->inputs[1];
  const GraphNode *keys = source->producer;
  bool tokens = keys && keys->op->id == ONNX_PlaceKeys && keys->n_outputs > SOURCES &&
                keys->outputs[SOURCES] && keys->outputs[SOURCES]->index == source->index &&
                symbolic_same(x->shape[0], keys->inputs[0]->shape[0]);
  int64_t rows, places;
  return tokens && symbolic_is_constant(x->shape[0], &rows) &&
         symbolic_is_constant(source->shape[0], &places) && rows < places && !node->outputs[0]->is_output;
}

static bool is_late(const Late *at, const GraphTensor *tensor)
{
  return tensor && g_hash_table_contains(at->early, tensor);
}

static bool reads_late(const Late *at, const GraphNode *node)
{
  for (unsigned i = 0; i < node->n_inputs; i++)
    if (is_late(at, node->inputs[i])) return true;
  return false;
}

/* Rows of the result are computed of the same rows of what is gathered, and of what is the same for all. */
static bool computes_rows(const Late *at, const GraphNode *node)
{
  const GraphTensor *y = node->n_outputs == 1 && !node->n_captured ? node->outputs[0] : NULL;
  bool elementwise = node->op->class_ == OPERATOR_ELEMENTWISE,
       rows = node->op->class_ == OPERATOR_ROW && node->axes && !(node->axes & 1);
  if (!y || node->loop != at->gather->loop || !y->rank || !symbolic_same(y->shape[0], gathered(at)->shape[0]))
    return false;
  if (operator_keeps_order(node->op)) /* what has been narrowed is gathered as it is */
    return number_bits(y->type) > CHAR_BIT && symbolic_same(node->inputs[0]->shape[0], y->shape[0]);
  for (unsigned i = 0; i < node->n_inputs; i++) {
    const GraphTensor *x = node->inputs[i];
    if (!x) continue;
    bool fixed = x->rank < y->rank || symbolic_equals(x->shape[0], 1);
    bool own = is_late(at, x) && number_bits(x->type) > CHAR_BIT && (rows ? i == 0 : x->rank == y->rank);
    if (is_late(at, x) ? !own : !fixed) return false;
  }
  return elementwise || rows;
}

/* Products may take what was quantised, and its scales (take_scales), which the dequantised tensor alone tells. */
static void leave_blocks(Late *at, const GraphNode *node)
{
  for (unsigned i = 0; i < node->n_outputs; i++) {
    const GraphBlocks *blocks = node->outputs[i] ? node->outputs[i]->blocks : NULL;
    GraphTensor *const read[] = {blocks ? blocks->x : NULL, blocks ? blocks->scale : NULL,
                                 blocks ? blocks->zero : NULL};
    for (unsigned j = 0; j < G_N_ELEMENTS(read); j++)
      if (is_late(at, read[j])) g_hash_table_add(at->left, read[j]);
  }
}

static void follow(Late *at, const GPtrArray *live)
{
  g_hash_table_insert(at->early, (gpointer)gathered(at), NULL);
  for (unsigned i = 0; i < live->len; i++) {
    GraphNode *node = live->pdata[i];
    leave_blocks(at, node);
    if (!reads_late(at, node)) continue;
    if (computes_rows(at, node)) {
      g_ptr_array_add(at->nodes, node);
      g_hash_table_insert(at->early, node->outputs[0], NULL);
      if (node->outputs[0]->is_output) g_hash_table_add(at->left, node->outputs[0]);
      continue;
    }
    for (unsigned j = 0; j < node->n_inputs; j++)
      if (is_late(at, node->inputs[j])) g_hash_table_add(at->left, node->inputs[j]);
  }
}

/* Of a row; 0: it is not known. */
static double row_bits(const GraphTensor *tensor)
{
  double bits = number_bits(tensor->type);
  for (unsigned d = 1; d < tensor->rank; d++) {
    int64_t extent = 0;
    symbolic_is_constant(tensor->shape[d], &extent);
    bits *= (double)extent;
  }
  return bits;
}

/* All that is left takes fewer bytes than the rows themselves, which nobody else reads. */
static bool pays(const Late *at)
{
  GHashTableIter iterator;
  gpointer tensor;
  double bits = 0;
  bool known = true;
  g_hash_table_iter_init(&iterator, at->left);
  while (g_hash_table_iter_next(&iterator, &tensor, NULL)) {
    double row = row_bits(tensor);
    known &= row > 0 && tensor != gathered(at);
    bits += row;
  }
  return known && bits > 0 && bits < row_bits(gathered(at));
}

static GraphTensor *early_of(Late *at, const GraphTensor *tensor)
{
  Fuser *fuser = at->fuser;
  const Symbolic *shape[GRAPH_MAX_RANK];
  for (unsigned d = 0; d < tensor->rank; d++)
    shape[d] = d ? tensor->shape[d] : at->gather->inputs[0]->shape[0];
  const char *name = arena_printf(fuser->arena, "%s.early%u", tensor->name, fuser->tensors->len);
  return fuser_new_tensor(fuser, name, tensor->type, tensor->mark, shape, tensor->rank);
}

/* The node computes the same of the rows as they lie. */
static void move(Late *at, GraphNode *node)
{
  Arena *arena = at->fuser->arena;
  const GraphTensor *late = node->outputs[0];
  GraphTensor *early = early_of(at, late);
  node->inputs = arena_memdup(arena, node->inputs, node->n_inputs * sizeof *node->inputs);
  if (operator_keeps_order(node->op)) node->n_inputs = 1; /* the result's shape tells */
  for (unsigned i = 0; i < node->n_inputs; i++)
    if (is_late(at, node->inputs[i])) node->inputs[i] = g_hash_table_lookup(at->early, node->inputs[i]);
  node->outputs = arena_memdup(arena, &early, sizeof(GraphTensor *));
  early->producer = node;
  g_hash_table_insert(at->early, (gpointer)late, early);
}

/* Behind all that moves: what reads the tensor then reads this one's. */
static GraphNode *gather_of(Late *at, const GraphTensor *late)
{
  Arena *arena = at->fuser->arena;
  GraphNode *node = arena_memdup(arena, at->gather, sizeof *at->gather);
  GraphTensor *inputs[] = {g_hash_table_lookup(at->early, late), at->gather->inputs[1]},
              *own = fuser_own_tensor(at->fuser, late);
  node->onnx = NULL;
  node->inputs = arena_memdup(arena, inputs, sizeof inputs);
  node->outputs = arena_memdup(arena, &own, sizeof(GraphTensor *));
  own->producer = node;
  return node;
}

static void rewrite(Late *at)
{
  Fuser *fuser = at->fuser;
  g_autoptr(GPtrArray) nodes = g_ptr_array_sized_new(fuser->live->len);
  g_hash_table_insert(at->early, (gpointer)gathered(at), at->gather->inputs[0]);
  fuser_note(fuser, "`%s` is gathered behind what is computed of its rows, which are fewer",
             gathered(at)->name);
  g_autofree const GraphTensor **late = g_new(const GraphTensor *, at->nodes->len + 1);
  for (unsigned i = 0; i < at->nodes->len; i++) {
    GraphNode *node = at->nodes->pdata[i];
    late[i] = node->outputs[0];
    move(at, node);
  }
  for (unsigned i = 0; i < fuser->live->len; i++) {
    GraphNode *node = fuser->live->pdata[i];
    guint moved;
    if (node != at->gather) g_ptr_array_add(nodes, node);
    if (g_ptr_array_find(at->nodes, node, &moved) && g_hash_table_contains(at->left, late[moved]))
      g_ptr_array_add(nodes, gather_of(at, late[moved]));
  }
  g_ptr_array_set_size(fuser->live, 0);
  g_ptr_array_extend(fuser->live, nodes, NULL, NULL);
}

void fusion_late_gathers(Fuser *fuser)
{
  g_autoptr(GPtrArray) gathers = g_ptr_array_new();
  for (unsigned i = 0; i < fuser->live->len; i++)
    if (spreads_tokens(fuser->live->pdata[i])) g_ptr_array_add(gathers, fuser->live->pdata[i]);
  for (unsigned i = 0; i < gathers->len; i++) {
    g_autoptr(GHashTable) early = g_hash_table_new(NULL, NULL), left = g_hash_table_new(NULL, NULL);
    g_autoptr(GPtrArray) nodes = g_ptr_array_new();
    Late at = {fuser, gathers->pdata[i], early, left, nodes};
    follow(&at, fuser->live);
    if (nodes->len && pays(&at)) rewrite(&at);
  }
}
