/* Rewrite open_rows: a product between Reshapes that make one dimension of several and these of it again, as exporters write linear layers
 * of more than two dimensions, is a product with all of them.
 *
 *   Reshape(Gemm(Reshape(x, [-1, K]), W, c), [B, S, N])        becomes        Add(MatMul(x, W), c)
 *
 * so that what follows it element by element joins its kernel; leading dimensions are its rows anyway. */
#include "generator/fusion/attention.h"

typedef struct {
  AttentionPattern *at;
  GraphNode *reshape, *product;
  GraphTensor *x, *weight, *added; /* added: NULL: none */
  double alpha;
  bool turned; /* the weight is [N, K] */
} Rows;

static GraphNode *producer(const AttentionPattern *at, const GraphTensor *tensor)
{
  GraphNode *node = tensor ? at->producers[tensor->index] : NULL;
  return node && node->outputs[0] == tensor ? node : NULL;
}

static bool merges(const GraphNode *node)
{
  return node && (node->op->id == ONNX_Reshape || node->op->id == ONNX_Flatten) &&
         node->outputs[0]->rank == 2;
}

/* Rows of x and columns of the product are what the Reshape behind it has. */
static bool is_opened(const Rows *r)
{
  const GraphTensor *x = r->x, *y = r->reshape->outputs[0], *product = r->product->outputs[0];
  unsigned last = x->rank - 1;
  if (x->rank < 3 || y->rank != x->rank || x->type != y->type) return false;
  for (unsigned d = 0; d < last; d++)
    if (!symbolic_same(x->shape[d], y->shape[d])) return false;
  return symbolic_same(x->shape[last], r->product->inputs[0]->shape[1]) &&
         symbolic_same(y->shape[last], product->shape[1]);
}

/* What is added to each row alike, with its own factor 1. */
static bool read_added(Rows *r)
{
  const GraphNode *node = r->product;
  r->added = node->n_inputs > 2 ? node->inputs[2] : NULL;
  if (!r->added) return true;
  bool row = r->added->rank < 2 || (r->added->rank == 2 && symbolic_equals(r->added->shape[0], 1));
  return row && r->added->type == node->outputs[0]->type && graph_attribute(node, "beta")->number == 1;
}

/* A weight that is computed, of fewer bits or with scales, is read by products of two dimensions as it lies there (take_scales). */
static bool is_computed(const Rows *r, const GraphTensor *weight)
{
  const GraphNode *node = producer(r->at, weight);
  if (node && node->op->id == ONNX_Transpose) node = producer(r->at, node->inputs[0]);
  return node != NULL;
}

static bool read_rows(Rows *r)
{
  GraphNode *node = r->product = producer(r->at, r->reshape->inputs[0]);
  bool gemm = node && node->op->id == ONNX_Gemm;
  if (!gemm && !(node && node->op->id == ONNX_MatMul)) return false;
  const GraphTensor *result = node->outputs[0];
  if (result->rank != 2 || result->is_output || r->at->readers[result->index]->len != 1) return false;
  GraphNode *merge = producer(r->at, node->inputs[0]);
  if (!merges(merge) || node->inputs[1]->rank != 2 || number_class(result->type) != NUMBER_FLOAT)
    return false;
  if (is_computed(r, node->inputs[1])) return false;
  r->x = merge->inputs[0];
  if (producer(r->at, r->x) && producer(r->at, r->x)->op->id == ONNX_Transpose)
    return false; /* who computes what is transposed stores it as the Reshape has it */
  r->weight = node->inputs[1];
  r->turned = gemm && graph_attribute(node, "transB")->integer;
  r->alpha = graph_attribute(node, "alpha")->number;
  if (gemm && graph_attribute(node, "transA")->integer) return false;
  return read_added(r) && is_opened(r);
}

/* A node in front of the Reshape, with its operator's defaults. */
static GraphNode *insert(Rows *r, OperatorId op, GraphTensor *a, GraphTensor *b, GraphTensor *result)
{
  Fuser *fuser = r->at->fuser;
  GraphTensor *const inputs[] = {a, b};
  GraphNode *node = fuser_copy_node(fuser, r->product, a, result);
  node->op = operator_of(op);
  node->inputs = arena_memdup(fuser->arena, inputs, sizeof inputs);
  node->n_inputs = b ? 2 : 1;
  node->loop = r->reshape->loop;
  node->attributes = fuser_default_attributes(fuser, node->op);
  result->producer = node;
  fuser_insert_before(fuser, r->reshape, node);
  return node;
}

static GraphTensor *further(Rows *r, const char *what, const GraphTensor *like, const Symbolic *const *shape,
                            unsigned rank)
{
  Fuser *fuser = r->at->fuser;
  const char *name =
      arena_printf(fuser->arena, "%s.%s%u", r->reshape->outputs[0]->name, what, fuser->tensors->len);
  GraphTensor *tensor = fuser_new_tensor(fuser, name, like->type, r->product->mark, shape, rank);
  tensor->n_consumers = 1;
  return tensor;
}

static void open(Rows *r)
{
  Fuser *fuser = r->at->fuser;
  GraphTensor *y = fuser_own_tensor(fuser, r->reshape->outputs[0]), *weight = r->weight;
  if (r->turned) {
    const Symbolic *shape[] = {weight->shape[1], weight->shape[0]};
    GraphTensor *turned = further(r, "weight", weight, shape, 2);
    GraphNode *transpose = insert(r, ONNX_Transpose, weight, NULL, turned);
    transpose->order[0] = 1;
    transpose->order[1] = 0;
    weight = turned;
  }
  GraphTensor *product = r->added ? further(r, "product", y, y->shape, y->rank) : y;
  GraphNode *matmul = insert(r, ONNX_MatMul, r->x, weight, product);
  int place = operator_attribute_index(matmul->op, "alpha");
  if (place >= 0) matmul->attributes[place].number = r->alpha;
  if (r->added) insert(r, ONNX_Add, product, r->added, y);
  g_ptr_array_remove(fuser->live, r->reshape);
  g_ptr_array_remove(fuser->live, r->product);
  fuser_note(fuser, "`%s` is a product of all dimensions of `%s`", y->name, r->x->name);
}

static void open_rows(AttentionPattern *at)
{
  g_autoptr(GPtrArray) nodes = g_ptr_array_copy(at->fuser->live, NULL, NULL);
  for (unsigned i = 0; i < nodes->len; i++) {
    Rows r = {.at = at, .reshape = nodes->pdata[i]};
    if (r.reshape->op->id == ONNX_Reshape && read_rows(&r)) open(&r);
  }
}

void fusion_open_rows(Fuser *fuser)
{
  attention_visit_nodes(fuser, open_rows);
  fusion_drop_unread(fuser);
}
