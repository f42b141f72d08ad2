/* Rewrite merge_equal: nodes that compute the same of the same tensors are one (value numbering: Cocke and Schwartz, 1970). Exporters write
 * a mask, a Cast or the angles of positions once a layer, and operators that are expanded bring theirs along.
 *
 *   c = Gather(cosines, p)   q = f(x, c)   d = Gather(cosines, p)   k = f(y, d)        becomes        c   q = f(x, c)   k = f(y, c)
 *
 * Equal constants are one tensor here. A view costs nothing, and elements that a kernel makes of fewer ones (a mask of two lists) cost
 * less than reading them: such nodes stay with their readers, unless a product or the like has to find them in memory. */
#include "generator/fusion/private.h"
#include <string.h>

#define MOST_COMPARED (1u << 12) /* bytes of constants that are looked at */

/* A node, and its inputs as the first tensors that are equal to them. */
typedef struct {
  GraphNode *node;
  const GraphTensor **inputs;
} Numbered;

typedef struct {
  Fuser *fuser;
  GHashTable *constants; /* the first constants of their kind */
  GHashTable *nodes;     /* Numbered, the first of their kind */
  GHashTable *first;     /* tensor -> the first that is equal; not there: itself */
  GHashTable *becomes;   /* tensor -> what its readers read; not there: itself */
  bool *stored;          /* by tensor index: some reader finds it in memory only */
} Merging;

static const GraphTensor *first_of(GHashTable *table, const GraphTensor *tensor)
{
  const GraphTensor *first = tensor ? g_hash_table_lookup(table, tensor) : NULL;
  return first ? first : tensor;
}

static guint mix(guint hash, guint value)
{
  return (hash << 5) - hash + value;
}

/* ---- constants ---- */

static size_t constant_bytes(const GraphTensor *tensor)
{
  return (size_t)number_bytes_of(tensor->type, tensor->n_elements);
}

static guint constant_hash(gconstpointer key)
{
  const GraphTensor *tensor = key;
  guint hash = mix(mix(tensor->type, tensor->rank), (guint)tensor->n_elements);
  if (tensor->file) return mix(hash, (guint)tensor->file_offset);
  const uint8_t *data = tensor->data;
  for (size_t i = 0, n = data ? constant_bytes(tensor) : 0; i < n && n <= MOST_COMPARED; i++)
    hash = mix(hash, data[i]);
  return hash;
}

static bool same_values(const GraphTensor *a, const GraphTensor *b)
{
  if (!a->values != !b->values) return false;
  for (size_t i = 0; a->values && i < a->n_elements; i++)
    if (!symbolic_same(a->values[i], b->values[i])) return false;
  return true;
}

static bool same_layout(const GraphTensor *a, const GraphTensor *b)
{
  if (a->type != b->type || !graph_same_shape(a, b) || a->begins || b->begins) return false;
  for (unsigned d = 0; d < a->rank; d++)
    if (!symbolic_same(a->strides[d], b->strides[d])) return false;
  return true;
}

static gboolean constant_equal(gconstpointer left, gconstpointer right)
{
  const GraphTensor *a = left, *b = right;
  if (a == b) return true;
  if (a->n_elements != b->n_elements || !same_layout(a, b) || !same_values(a, b)) return false;
  if (a->file || b->file)
    return a->file && b->file && !strcmp(a->file, b->file) && a->file_is_raw && b->file_is_raw &&
           a->file_offset == b->file_offset;
  if (!a->data || !b->data) return !a->data && !b->data && a->values;
  size_t bytes = constant_bytes(a);
  return bytes <= MOST_COMPARED && !memcmp(a->data, b->data, bytes);
}

/* The first tensor that is equal to it. */
static const GraphTensor *number_of(Merging *m, GraphTensor *tensor)
{
  if (!tensor || tensor->kind != TENSOR_CONSTANT) return first_of(m->first, tensor);
  const GraphTensor *first = g_hash_table_lookup(m->constants, tensor);
  if (!first) g_hash_table_add(m->constants, tensor);
  return first ? first : tensor;
}

/* ---- nodes ---- */

static guint node_hash(gconstpointer key)
{
  const Numbered *numbered = key;
  guint hash = mix(numbered->node->op->id, numbered->node->axes);
  for (unsigned i = 0; i < numbered->node->n_inputs; i++)
    hash = mix(hash, g_direct_hash(numbered->inputs[i]));
  return hash;
}

static bool same_list(const void *a, const void *b, size_t bytes)
{
  return a == b || (a && b && !memcmp(a, b, bytes));
}

bool fuser_same_attributes(const GraphNode *a, const GraphNode *b)
{
  for (unsigned i = 0; i < a->op->n_attributes; i++) {
    const GraphAttribute *x = &a->attributes[i], *y = &b->attributes[i];
    bool same = x->number == y->number && x->integer == y->integer && !g_strcmp0(x->text, y->text) &&
                x->n == y->n && !x->body && !y->body && !x->texts && !y->texts;
    if (!same || !same_list(x->integers, y->integers, x->n * sizeof *x->integers) ||
        !same_list(x->numbers, y->numbers, x->n * sizeof *x->numbers))
      return false;
  }
  return true;
}

/* What inference found out beside the shapes. The parts of a Split and where a slice or a window begins are not compared: they
 * follow from inputs and attributes, which are. */
static bool same_walk(const GraphNode *a, const GraphNode *b)
{
  unsigned rank = a->n_inputs && a->inputs[0] ? a->inputs[0]->rank : 0;
  return a->axes == b->axes && a->keepdims == b->keepdims &&
         !memcmp(a->order, b->order, rank * sizeof *a->order) &&
         !memcmp(a->steps, b->steps, rank * sizeof *a->steps) && a->blocks[0] == b->blocks[0] &&
         a->blocks[1] == b->blocks[1];
}

static bool same_results(const GraphNode *a, const GraphNode *b)
{
  for (unsigned i = 0; i < a->n_outputs; i++) {
    const GraphTensor *x = a->outputs[i], *y = b->outputs[i];
    if (!y) continue; /* nobody asks for it here */
    if (!x || !same_layout(x, y) || x->memory || y->memory) return false;
  }
  return true;
}

static gboolean node_equal(gconstpointer left, gconstpointer right)
{
  const Numbered *x = left, *y = right;
  const GraphNode *a = x->node, *b = y->node;
  return a->op == b->op && a->loop == b->loop && a->n_inputs == b->n_inputs && a->n_outputs == b->n_outputs &&
         !memcmp(x->inputs, y->inputs, a->n_inputs * sizeof *x->inputs) && same_walk(a, b) &&
         fuser_same_attributes(a, b);
}

/* ---- which are worth it ---- */

static void mark_stored(Merging *m)
{
  const GPtrArray *live = m->fuser->live;
  m->stored = g_new0(bool, m->fuser->tensors->len + 1);
  for (guint i = live->len; i-- > 0;) {
    const GraphNode *node = live->pdata[i];
    OperatorClass kind = node->op->class_;
    bool reads = kind == OPERATOR_GEMM || kind == OPERATOR_INDEX || kind == OPERATOR_SEQUENCES;
    for (unsigned j = 0; kind == OPERATOR_VIEW && j < node->n_outputs; j++)
      reads = reads || (node->outputs[j] && m->stored[node->outputs[j]->index]);
    for (unsigned j = 0; reads && j < node->n_inputs; j++)
      if (node->inputs[j]) m->stored[node->inputs[j]->index] = true;
  }
}

static bool is_worth_it(const Merging *m, const GraphNode *node)
{
  bool steps = node->op->class_ == OPERATOR_ELEMENTWISE,
       view = node->op->class_ == OPERATOR_VIEW && node->op->id != ONNX_Concat;
  const GraphTensor *result = node->outputs[0];
  if (view || !result) return false;
  bool worth = !steps || m->stored[result->index];
  for (unsigned i = 0; i < node->n_inputs && !worth; i++)
    worth = node->inputs[i] && node->inputs[i]->kind != TENSOR_CONSTANT &&
            graph_same_shape(node->inputs[i], result);
  return worth;
}

static bool may_go(const GraphNode *node)
{
  for (unsigned i = 0; i < node->n_outputs; i++)
    if (node->outputs[i] && node->outputs[i]->is_output) return false;
  return true;
}

/* ---- the walk ---- */

static void merge(Merging *m, const GraphNode *node, const GraphNode *first)
{
  bool goes = may_go(node) && is_worth_it(m, node);
  for (unsigned i = 0; i < node->n_outputs; i++) {
    if (!node->outputs[i]) continue;
    g_hash_table_insert(m->first, node->outputs[i], (void *)first_of(m->first, first->outputs[i]));
    if (goes) g_hash_table_insert(m->becomes, node->outputs[i], first->outputs[i]);
  }
  if (goes)
    fuser_note(m->fuser, "`%s` is `%s`: %s of the same", node->outputs[0]->name, first->outputs[0]->name,
               node->op->name);
}

static void number_node(Merging *m, GraphNode *node)
{
  Arena *arena = m->fuser->arena;
  Numbered *numbered = arena_new_object(arena, Numbered);
  *numbered = (Numbered){node, arena_new_array(arena, const GraphTensor *, node->n_inputs + 1)};
  for (unsigned i = 0; i < node->n_inputs; i++)
    numbered->inputs[i] = number_of(m, node->inputs[i]);
  const Numbered *first = g_hash_table_lookup(m->nodes, numbered);
  if (!first)
    g_hash_table_add(m->nodes, numbered);
  else if (same_results(first->node, node))
    merge(m, node, first->node);
}

void fusion_merge_equal(Fuser *fuser)
{
  g_autoptr(GHashTable) constants = g_hash_table_new(constant_hash, constant_equal),
                        nodes = g_hash_table_new(node_hash, node_equal), first = g_hash_table_new(NULL, NULL),
                        becomes = g_hash_table_new(NULL, NULL);
  Merging m = {fuser, constants, nodes, first, becomes, NULL};
  mark_stored(&m);
  for (unsigned i = 0; i < fuser->live->len; i++) {
    GraphNode *node = fuser->live->pdata[i];
    if (node->op->class_ != OPERATOR_LOOP) number_node(&m, node);
    for (unsigned j = 0; j < node->n_inputs; j++)
      node->inputs[j] = (GraphTensor *)first_of(becomes, node->inputs[j]);
  }
  g_free(m.stored);
  if (g_hash_table_size(becomes)) fusion_drop_unread(fuser);
}
