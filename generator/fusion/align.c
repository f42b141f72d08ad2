/* Rewrite align_operands: products of operands whose rows start anywhere.
 *
 * TMA and wide copies of threads need rows that start at multiples of 16 bytes. Where the strides
 * are known not to be such multiples (K or N odd, a slice of an odd matrix) every copy would go element by
 * element; a copy of the operand in padded rows, made once by a kernel of its own, costs its bytes three
 * times and lets the product run as usual. A constant is put into padded rows where it is loaded, for nothing. Strides that are symbols are left to the variants' guards. */
#include "generator/fusion/private.h"
#include "generator/program/odd_rows.h"
#include <string.h>

/* What rows of a copy begin at multiples of: TMA is less than half as fast where they begin
 * inside of a sector (docs/performance-log.md). */
#define PADDED_BYTES 128

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

/* Between two kernels of the graph, in memory that nobody else sees, nor its strides. */
static bool is_intermediate(const Fuser *fuser, const GPtrArray *live, const GraphTensor *tensor)
{
  return tensor->producer && !tensor->is_output && !fuser_is_view(tensor) && !tensor->n_parts &&
         !fuser_is_viewed(fuser, live, tensor);
}

/* A row operator that reads or gives `old` could not with `by`: its rows would not be evenly spaced. */
static bool breaks_rows(Fuser *fuser, const GraphNode *node, const GraphTensor *old, const GraphTensor *by)
{
  bool touched = false, reduced = !graph_same_shape(node->outputs[0], node->inputs[0]);
  if (node->op->class_ != OPERATOR_ROW) return false;
  for (unsigned i = 0; i < node->n_inputs; i++)
    touched = touched || node->inputs[i] == old;
  for (unsigned i = 0; i < node->n_outputs; i++) {
    bool given = node->outputs[i] == old;
    if (given && (i || reduced)) return true;
    touched = touched || given;
  }
  return touched && !fuser_walks_rows(fuser, by, node);
}

/* Who computes the tensor may do so in padded rows, which nobody but kernels of the graph sees. Row operators
 * that come later are given copies where they need them. */
static bool may_be_padded(Fuser *fuser, const GPtrArray *live, const GraphTensor *tensor,
                          const GraphTensor *by)
{
  if (!is_intermediate(fuser, live, tensor)) return false;
  for (unsigned i = 0; i < fuser->nodes->len; i++)
    if (breaks_rows(fuser, fuser->nodes->pdata[i], tensor, by)) return false;
  return true;
}

static void replace(GraphTensor **list, unsigned n, const GraphTensor *old, GraphTensor *by)
{
  for (unsigned i = 0; i < n; i++)
    if (list[i] == old) list[i] = by;
}

/* Whoever writes or reads `old` does so with `by`. */
static void replace_everywhere(const Fuser *fuser, const GPtrArray *live, const GraphTensor *old,
                               GraphTensor *by)
{
  const GPtrArray *const lists[] = {fuser->nodes,
                                    live}; /* those done, with inserted copies, and all others */
  for (unsigned l = 0; l < G_N_ELEMENTS(lists); l++)
    for (unsigned i = 0; i < lists[l]->len; i++) {
      GraphNode *node = lists[l]->pdata[i];
      replace(node->inputs, node->n_inputs, old, by);
      for (unsigned j = 0; j < node->n_outputs; j++) {
        if (node->outputs[j] != old) continue;
        node->outputs = arena_memdup(fuser->arena, node->outputs, node->n_outputs * sizeof(GraphTensor *));
        node->outputs[j] = by;
      }
    }
}

/* What stands for an operand with odd rows: `made` if it costs a copy. */
static GraphTensor *aligned_operand(Fuser *fuser, const GPtrArray *live, const GraphNode *node,
                                    unsigned operand, bool *made)
{
  const GraphTensor *tensor = node->inputs[operand];
  unsigned inner = (unsigned)tensor_contiguous_dimension(tensor);
  GraphTensor *aligned = fuser_make_copy(fuser, node, tensor, tensor->shape, tensor->rank, inner,
                                         number_elements(tensor->type, PADDED_BYTES));
  *made = false;
  if (may_be_padded(fuser, live, tensor, aligned)) {
    aligned->name = tensor->name;
    aligned->producer = tensor->producer;
    return aligned;
  }
  GraphTensor *known = find_copy(fuser, tensor, aligned);
  *made = !known;
  return known ? known : aligned;
}

static void take_aligned(Fuser *fuser, const GPtrArray *live, GraphNode *node, unsigned operand,
                         GraphTensor *aligned, bool made)
{
  GraphTensor *tensor = node->inputs[operand];
  bool padded = may_be_padded(fuser, live, tensor, aligned);
  if (made || padded) aligned->index = fuser->tensors->len;
  if (padded) {
    g_ptr_array_add(fuser->tensors, aligned);
    replace_everywhere(fuser, live, tensor, aligned);
    fuser_note(fuser, "rows of `%s` are padded to %d bytes for %s", tensor->name, PADDED_BYTES,
               node->op->name);
    return;
  }
  if (made) fuser_insert_copy(fuser, node, tensor, aligned, "its rows start at no multiples of 16 bytes");
  node->inputs[operand] = aligned;
}

/* ---- constants ---- */

static GraphTensor *known_padded(const Fuser *fuser, const GraphTensor *constant)
{
  for (unsigned i = 0; i < fuser->stacks->len; i++) {
    const FusionStack *stack = fuser->stacks->pdata[i];
    if (stack->n == 1 && stack->parts[0] == constant) return (GraphTensor *)stack->tensor;
  }
  return NULL;
}

/* The matrix with rows of whole PADDED_BYTES: it is made where the program is loaded, once (FusionStack). */
static GraphTensor *padded(Fuser *fuser, const GraphTensor *constant, int64_t columns)
{
  Arena *arena = fuser->arena;
  GraphTensor *tensor = known_padded(fuser, constant);
  int64_t unit = (int64_t)number_elements(constant->type, PADDED_BYTES);
  if (tensor) return tensor;
  tensor = arena_memdup(arena, constant, sizeof *tensor);
  tensor->name = arena_printf(arena, "%s.padded", constant->name);
  tensor->data = tensor->file = NULL;
  tensor->index = fuser->tensors->len;
  tensor->align = PADDED_BYTES;
  tensor->shape[1] = tensor->strides[0] = symbolic_constant(arena, (columns + unit - 1) / unit * unit);
  g_ptr_array_add(fuser->tensors, tensor);
  FusionStack *stack = arena_new_object(arena, FusionStack);
  *stack = (FusionStack){tensor, arena_memdup(arena, &constant, sizeof constant), 1, 1};
  g_ptr_array_add(fuser->stacks, stack);
  return tensor;
}

/* The operand, a constant of two dimensions or its transpose, in padded rows; NULL: it is something else. */
static GraphTensor *padded_constant(Fuser *fuser, const GraphTensor *tensor)
{
  const GraphTensor *constant = fuser->tensors->pdata[tensor->index];
  int64_t rows, columns;
  bool plain = constant && constant->kind == TENSOR_CONSTANT && constant->rank == 2 && tensor->rank == 2 &&
               !constant->values && (constant->data || constant->file) &&
               (!tensor->begins || symbolic_equals(tensor->begins, 0));
  if (!plain || !symbolic_is_constant(constant->shape[0], &rows) ||
      !symbolic_is_constant(constant->shape[1], &columns) || rows < 2)
    return NULL;
  unsigned turned = !symbolic_equals(tensor->strides[1], 1);
  for (unsigned d = 0; d < 2; d++)
    if (!symbolic_same(tensor->shape[d], constant->shape[d ^ turned]) ||
        !symbolic_same(tensor->strides[d], constant->strides[d ^ turned]))
      return NULL;
  GraphTensor *wide = padded(fuser, constant, columns), *view = fuser_view_of(fuser, wide);
  for (unsigned d = 0; d < 2; d++) {
    view->shape[d] = tensor->shape[d];
    view->strides[d] = wide->strides[d ^ turned];
  }
  return view;
}

/* The product's program, and behind those of copies (a NULL ends them) what runs instead of it. */
static ProgramVerdict judge_product(Fuser *fuser, GraphNode *node, GraphNode *const *copies)
{
  const Program *programs[3];
  unsigned n = 0;
  for (; *copies; copies++)
    programs[n++] = fuser_program(fuser, *copies, (*copies)->outputs[0]);
  programs[n++] = fuser_program(fuser, node, node->outputs[0]);
  return fuser_judge_all(fuser, programs, n, true);
}

/* Is the product of aligned operands better, copying included, than that of the operands where they lie? */
static bool copies_pay(Fuser *fuser, GraphNode *node, GraphTensor *const *aligned, const bool *made)
{
  GraphNode *none[] = {NULL}, *copies[3] = {NULL, NULL, NULL}, trial = *node;
  unsigned n = 0;
  trial.inputs = arena_memdup(fuser->arena, node->inputs, node->n_inputs * sizeof *node->inputs);
  for (unsigned i = 0; i < 2; i++) {
    if (aligned[i]) trial.inputs[i] = aligned[i];
    if (made[i]) copies[n++] = fuser_copy_node(fuser, node, node->inputs[i], aligned[i]);
  }
  ProgramVerdict copied = judge_product(fuser, &trial, copies);
  if (!copied.priced) return false;
  ProgramVerdict direct = judge_product(fuser, node, none);
  if (direct.taken && !direct.priced) return false;
  g_autofree char *in_place = direct.taken ? g_strdup_printf("read in place %.0f", direct.clocks)
                                           : g_strdup_printf("not read in place: %s", direct.why);
  fuser_note(
      fuser,
      "%s: rows of its operands start at no multiples of %d bytes: %s copied about %.0f clocks (%.0f of "
      "them to copy), %s",
      node->op->name, WIDE_BYTES, copied.why, copied.clocks, copied.clocks - copied.last, in_place);
  return !direct.taken || copied.clocks < direct.clocks;
}

static void align_operands(Fuser *fuser, const GPtrArray *live, GraphNode *node)
{
  GraphTensor *aligned[2] = {NULL, NULL};
  bool made[2] = {false, false};
  for (unsigned i = 0; i < 2; i++) {
    bool packed = number_is_packed(node->inputs[i]->type); /* no kernel writes such */
    if (packed || !tensor_has_odd_rows(node->inputs[i])) continue;
    bool again = i && node->inputs[1] == node->inputs[0];
    aligned[i] = again ? aligned[0] : padded_constant(fuser, node->inputs[i]);
    if (!aligned[i]) aligned[i] = aligned_operand(fuser, live, node, i, &made[i]);
  }
  if ((!aligned[0] && !aligned[1]) || !copies_pay(fuser, node, aligned, made)) return;
  bool same = node->inputs[0] == node->inputs[1];
  for (unsigned i = 0; i < 2; i++)
    if (aligned[i] && !(i && same)) take_aligned(fuser, live, node, i, aligned[i], made[i]);
  if (same) node->inputs[1] = node->inputs[0];
}

bool fusion_align_operands(Fuser *fuser, unsigned place)
{
  GraphNode *node = fuser->live->pdata[place];
  if (node->op->class_ == OPERATOR_GEMM && node->op->id != ONNX_GroupedMatMul)
    align_operands(fuser, fuser->live, node);
  return false;
}
