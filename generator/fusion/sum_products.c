/* Rewrite sum_products: a sum over the batches of a product is the product's own, which goes on along k from batch to batch.
 *
 *   p = MatMul(x, w)   [B, M, N]       becomes        y = MatMul(x, w) summed over B
 *   y = ReduceSum(p, 0)
 *
 * Only of matrices that both have the one batch dimension, of 16 or 32 bits, where nobody else reads the product. */
#include "generator/fusion/private.h"

#define BATCHED 3 /* dimensions */

static bool is_batched(const GraphNode *node)
{
  const GraphTensor *a = node->inputs[0], *b = node->inputs[1];
  bool plain = node->op->id == ONNX_MatMul && node->n_inputs == 2 && !node->axes && !node->blocks[0] &&
               !node->blocks[1] && a->rank == BATCHED && b->rank == BATCHED && a->type == b->type;
  bool matrices = plain && symbolic_same(a->shape[0], b->shape[0]) && number_class(a->type) == NUMBER_FLOAT &&
                  (number_has_bytes(a->type, 2) || number_has_bytes(a->type, 4));
  for (unsigned d = 1; matrices && d < BATCHED; d++)
    matrices = !symbolic_equals(a->shape[d], 1) && !symbolic_equals(b->shape[d], 1);
  return matrices && !symbolic_equals(a->shape[0], 1);
}

void fusion_sum_products(Fuser *fuser)
{
  g_autofree GraphNode **producers = fuser_live_producers(fuser);
  for (unsigned i = 0; i < fuser->live->len; i++) {
    GraphNode *sum = fuser->live->pdata[i];
    if (sum->op->id != ONNX_ReduceSum || sum->axes != 1 || sum->keepdims) continue;
    const GraphTensor *input = sum->inputs[0];
    GraphNode *product = input->producer ? producers[input->index] : NULL;
    bool alone = product && product->outputs[0] == input && !input->is_output && input->n_consumers == 1;
    if (!alone || !is_batched(product) || sum->outputs[0]->type != input->type) continue;
    GraphNode *both = arena_memdup(fuser->arena, product, sizeof *product);
    both->outputs = sum->outputs;
    both->axes = sum->axes;
    fuser_note(fuser, "`%s` is a product that is summed over batches", sum->outputs[0]->name);
    g_ptr_array_remove(fuser->live, product);
    g_ptr_array_find(fuser->live, sum, &i);
    fuser->live->pdata[i] = both;
    producers[sum->outputs[0]->index] = both;
  }
}
