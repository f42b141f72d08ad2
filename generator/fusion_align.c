/* Products of operands whose rows start anywhere.
 *
 * The copy engine and wide copies of threads need rows that start at multiples of 16 bytes. Where the strides
 * are known not to be such multiples (K or N odd, a slice of an odd matrix) every copy would go element by
 * element; a copy of the operand in padded rows, made once by a kernel of its own, costs its bytes three
 * times and lets the product run as usual. Strides that are symbols are left to the variants' guards. */
#include "generator/fusion_private.h"
#include <string.h>

#define WIDE_BYTES 16

/* The dimension of a matrix whose elements lie side by side. */
static int contiguous_dimension(const GraphTensor *tensor)
{
  for (unsigned i = tensor->rank; i-- > (tensor->rank > 2 ? tensor->rank - 2 : 0);)
    if (symbolic_equals(tensor->strides[i], 1)) return (int)i;
  return -1;
}

/* Some row or matrix is known to start beside a multiple of 16 bytes; no stride is unknown. */
static bool has_odd_rows(const GraphTensor *tensor)
{
  int inner = contiguous_dimension(tensor);
  bool odd = false;
  if (tensor->rank < 2 || inner < 0) return false;
  for (unsigned i = 0; i < tensor->rank; i++) {
    int64_t stride, extent;
    if ((int)i == inner || (symbolic_is_constant(tensor->shape[i], &extent) && extent <= 1)) continue;
    if (!symbolic_is_constant(tensor->strides[i], &stride)) return false;
    odd = odd || stride * number_bytes(tensor->type) % WIDE_BYTES != 0;
  }
  return odd;
}

/* What all rows start at multiples of, as far as is known. */
static unsigned known_bytes(const GraphTensor *tensor)
{
  unsigned bytes = MIN(tensor->align, WIDE_BYTES);
  for (unsigned i = 0; i < tensor->rank; i++) {
    int64_t stride, extent;
    if (symbolic_equals(tensor->strides[i], 1) ||
        (symbolic_is_constant(tensor->shape[i], &extent) && extent <= 1))
      continue;
    while (!symbolic_is_constant(tensor->strides[i], &stride) || stride * number_bytes(tensor->type) % bytes)
      bytes /= 2;
  }
  return bytes;
}

static bool same_layout(const GraphTensor *a, const GraphTensor *b)
{
  bool same = a->type == b->type && a->rank == b->rank;
  for (unsigned i = 0; same && i < a->rank; i++)
    same = symbolic_same(a->shape[i], b->shape[i]) && symbolic_same(a->strides[i], b->strides[i]);
  return same;
}

/* A copy that another product already has: those of one operand can then share a kernel. */
static GraphTensor *find_copy(const Fuser *fuser, const GraphTensor *source, const GraphTensor *like)
{
  for (unsigned i = 0; i < fuser->nodes->len; i++) {
    const GraphNode *node = fuser->nodes->pdata[i];
    if (node->op->id == ONNX_Identity && node->inputs[0] == source &&
        node->outputs[0]->index >= fuser->graph->n_tensors && same_layout(node->outputs[0], like))
      return node->outputs[0];
  }
  return NULL;
}

/* The product alone, as a fused operator. */
static const FusedOperator *product_of(Fuser *fuser, GraphNode *node)
{
  g_autoptr(GPtrArray) nodes = g_ptr_array_new();
  g_ptr_array_add(nodes, node);
  Group group = {.kind = FUSED_GEMM, .anchor = node, .nodes = nodes};
  FusedOperator *product = fuser_assemble(fuser, &group);
  if (product && !product->n_outputs) { /* its readers are not known yet */
    product->outputs = arena_new_object(fuser->arena, FusedOutput);
    product->outputs[0] = (FusedOutput){.tensor = node->outputs[0], .value = {.kind = OPERAND_ANCHOR}};
    product->n_outputs = 1;
  }
  return product;
}

void fuser_align_operands(Fuser *fuser, GraphNode *node)
{
  const FusionOptions *options = fuser->options;
  GraphTensor *copies[2] = {NULL, NULL};
  bool made[2] = {false, false};
  FusedCopies report = {.bytes = WIDE_BYTES};
  if (!options || !options->accept_copies) return;
  for (unsigned i = 0; i < 2; i++) {
    GraphTensor *tensor = node->inputs[i];
    if (!has_odd_rows(tensor)) continue;
    GraphTensor *copy =
        fuser_make_copy(fuser, node, tensor, tensor->shape, tensor->rank,
                        (unsigned)contiguous_dimension(tensor), WIDE_BYTES / number_bytes(tensor->type));
    GraphTensor *known = i && tensor == node->inputs[0] ? copies[0] : find_copy(fuser, tensor, copy);
    copies[i] = known ? known : copy;
    made[i] = !known;
    report.bytes = MIN(report.bytes, known_bytes(tensor));
  }
  if (!copies[0] && !copies[1]) return;
  report.a = made[0];
  report.b = made[1];
  GraphNode trial = *node;
  GraphTensor *inputs[8];
  memcpy(inputs, node->inputs, MIN(node->n_inputs, G_N_ELEMENTS(inputs)) * sizeof *inputs);
  for (unsigned i = 0; i < 2; i++)
    if (copies[i]) inputs[i] = copies[i];
  trial.inputs = inputs;
  const char *why = NULL;
  const FusedOperator *product = product_of(fuser, &trial);
  bool pays = product && options->accept_copies(product, &report, fuser->arena, &why, options->data);
  if (why)
    fuser_note(fuser, "%s: rows of its operands that start at no multiples of %d bytes: %s", node->op->name,
               WIDE_BYTES, why);
  for (unsigned i = 0; pays && i < 2; i++) {
    if (!copies[i]) continue;
    if (made[i]) {
      copies[i]->index = fuser->tensors->len;
      fuser_insert_copy(fuser, node, node->inputs[i], copies[i],
                        "its rows start at no multiples of 16 bytes");
    }
    node->inputs[i] = copies[i];
  }
}
