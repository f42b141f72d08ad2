/* What other code asks of the family of attention's gradients. */
#include "generator/program/attention_grad.h"
#include "generator/program/fused_text.h"

void visit_attention_grad(const FusedOperator *op, const BindingVisitor *visitor)
{
  const FusedAttentionGrad *grad = attention_grad_of(op);
  const Symbolic *const extents[] = {grad->batches, grad->heads, grad->group, grad->rows,
                                     grad->keys,    grad->depth, grad->width, grad->diagonal};
  const unsigned inputs[] = {grad->queries, grad->key_matrix, grad->values,  grad->grad,
                             grad->sums,    grad->delta,      grad->changes, grad->gives_changes};
  for (unsigned i = 0; i < G_N_ELEMENTS(extents); i++)
    visitor->expression(extents[i], visitor->data);
  for (unsigned i = 0; i < G_N_ELEMENTS(inputs); i++)
    visitor->number(inputs[i], visitor->data);
  visitor->number(16 * grad->of_changes + 8 * grad->of_rows + 4 * grad->gives_depth + 2 * grad->gives_width +
                      grad->causal,
                  visitor->data);
  visitor->number(grad->parts, visitor->data);
  visitor->number(grad->divided, visitor->data);
  visitor->number(grad->type, visitor->data);
  visitor->operand(&grad->score, visitor->data);
  visitor->operand(&grad->slope, visitor->data);
  visitor->real(grad->scale, visitor->data);
  visitor->real(grad->factor, visitor->data);
  attention_visit_bounds(grad->bounds, grad->n_bounds, visitor);
}

void describe_attention_grad(const FusedOperator *op, GString *text)
{
  static const char *const names[GRAD_DIMS] = {
      [GRAD_GROUP] = "these", [GRAD_ROW] = "rows", [GRAD_KEY] = "keys"};
  const FusedAttentionGrad *grad = attention_grad_of(op);
  g_string_append_printf(text, "  gradients of %s %s,",
                         grad->of_changes                         ? "queries, of what changes with products"
                         : grad->of_rows                          ? "queries"
                         : grad->gives_depth && grad->gives_width ? "keys and values"
                         : grad->gives_depth                      ? "keys"
                                                                  : "values",
                         number_name(grad->type));
  fused_put_value(text, "rows", grad->rows);
  fused_put_value(text, "keys", grad->keys);
  fused_put_value(text, "depth", grad->depth);
  fused_put_value(text, "width", grad->width);
  fused_put_value(text, "heads of keys", grad->heads);
  fused_put_value(text, "that so many share", grad->group);
  if (grad->parts > 1)
    g_string_append_printf(text, ", in %u parts of %s,", grad->parts, names[grad->divided]);
  g_string_append_printf(text, " scale %.9g of ", grad->scale);
  fused_put_operand(text, op, &grad->score);
  if (grad->causal) fused_put_value(text, ", keys up to row +", grad->diagonal);
  attention_describe_bounds(op, grad->bounds, grad->n_bounds, text);
  g_string_append_c(text, '\n');
}

unsigned types_attention_grad(const FusedOperator *op, NumberType *types)
{
  types[0] = attention_grad_of(op)->type;
  return 1;
}

/* Parts are of heads, p, rows, r, or keys, s. */
unsigned extents_attention_grad(const FusedOperator *op, FamilyExtent *extents)
{
  static const char *const letters[GRAD_DIMS] = {[GRAD_GROUP] = "p", [GRAD_ROW] = "r", [GRAD_KEY] = "s"};
  const FusedAttentionGrad *grad = attention_grad_of(op);
  const FamilyExtent all[] = {{"b", grad->batches}, {"h", grad->heads},
                              {"g", grad->group},   {"m", grad->rows},
                              {"t", grad->keys},    {"d", grad->depth},
                              {"e", grad->width},   {letters[grad->divided], op->dims[GRAD_PART]}};
  unsigned n = G_N_ELEMENTS(all) - (grad->parts == 1);
  for (unsigned i = 0; i < n; i++)
    extents[i] = all[i];
  return n;
}

const FusedOperator *turned_attention_grad(Arena *arena, const FusedOperator *op)
{
  return NULL;
}
