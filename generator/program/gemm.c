/* Matrix products: what their binding tells others, and a product the other way round. */
#include "generator/program/gemm.h"
#include "generator/program/fused_text.h"
#include <string.h>

#define TURNED_PRODUCTS 2 /* at most, of one kernel whose operands change places */

FusedOperator *gemm_copy(Arena *arena, const FusedOperator *op, FusedGemm **gemm)
{
  FusedOperator *copy = arena_memdup(arena, op, sizeof *op);
  copy->binding = *gemm = arena_memdup(arena, gemm_of(op), sizeof **gemm);
  return copy;
}

/* ---- the transpose ---- */

static void exchange(const Symbolic **strides, unsigned rank)
{
  const Symbolic *row = strides[rank - 2];
  strides[rank - 2] = strides[rank - 1];
  strides[rank - 1] = row;
}

static const GemmLead *lead_transposed(Arena *arena, const GemmLead *from, unsigned batches)
{
  if (!from) return NULL;
  GemmLead *lead = arena_memdup(arena, from, sizeof *from);
  lead->a = from->b;
  lead->b = from->a;
  for (unsigned i = 0; i < batches; i++) {
    lead->a_batch[i] = from->b_batch[i];
    lead->b_batch[i] = from->a_batch[i];
  }
  lead->a_m = from->b_n;
  lead->a_k = from->b_k;
  lead->b_k = from->a_k;
  lead->b_n = from->a_m;
  return lead;
}

const FusedOperator *gemm_transposed(Arena *arena, const FusedOperator *op)
{
  FusedGemm *gemm;
  FusedOperator *turned = gemm_copy(arena, op, &gemm);
  const FusedGemm *from = gemm_of(op);
  exchange(turned->dims, op->rank);
  turned->inputs = arena_memdup(arena, op->inputs, op->n_inputs * sizeof *op->inputs);
  turned->outputs = arena_memdup(arena, op->outputs, op->n_outputs * sizeof *op->outputs);
  for (unsigned i = 0; i < op->n_inputs; i++)
    exchange(turned->inputs[i].strides, op->rank);
  for (unsigned i = 0; i < op->n_outputs; i++)
    exchange(turned->outputs[i].strides, op->rank);
  gemm->m = from->n;
  gemm->n = from->m;
  gemm->a = from->b;
  gemm->b = from->a;
  for (unsigned i = 0; i < from->n_batch; i++) {
    gemm->a_batch[i] = from->b_batch[i];
    gemm->b_batch[i] = from->a_batch[i];
  }
  gemm->a_summed = from->b_summed;
  gemm->b_summed = from->a_summed;
  gemm->a_m = from->b_n;
  gemm->a_k = from->b_k;
  gemm->b_k = from->a_k;
  gemm->b_n = from->a_m;
  gemm->a_m_major = from->b_n_major;
  gemm->b_n_major = from->a_m_major;
  gemm->a_type = from->b_type;
  gemm->b_type = from->a_type;
  gemm->weights.left = !from->weights.left;
  gemm->lead = lead_transposed(arena, from->lead, from->n_batch);
  return turned;
}

const FusedOperator *turned_gemm(Arena *arena, const FusedOperator *op)
{
  /* what is reduced, and what groups have but of narrow weights, are rows either way, and scales of a block are one operand's;
   * turned products have an accumulator each */
  const FusedGemm *gemm = gemm_of(op);
  bool rows = fused_is_reduced(op) || (gemm->groups && !gemm->narrow) || gemm->scaled;
  return rows || gemm->products > TURNED_PRODUCTS ? NULL : gemm_transposed(arena, op);
}

/* ---- for others ---- */

static void visit_list(const BindingVisitor *visitor, const Symbolic *const *list, unsigned n)
{
  visitor->number(n, visitor->data);
  for (unsigned i = 0; i < n; i++)
    visitor->expression(list[i], visitor->data);
}

static void visit_weights(const GemmWeights *weights, const BindingVisitor *visitor)
{
  const int64_t numbers[] = {weights->type, weights->depth,    weights->scale,
                             weights->zero, weights->has_zero, weights->number};
  const Symbolic *const along[] = {weights->scale_row, weights->zero_row, weights->scale_k, weights->zero_k};
  for (unsigned i = 0; i < G_N_ELEMENTS(numbers); i++)
    visitor->number((unsigned)numbers[i], visitor->data);
  visit_list(visitor, along, G_N_ELEMENTS(along));
}

static void visit_lead(const GemmLead *lead, unsigned batches, const BindingVisitor *visitor)
{
  const Symbolic *const along[] = {lead->k, lead->a_m, lead->a_k, lead->b_k, lead->b_n};
  float factor = (float)lead->factor;
  uint32_t bits;
  memcpy(&bits, &factor, sizeof bits);
  const unsigned numbers[] = {lead->a, lead->b, bits};
  for (unsigned i = 0; i < G_N_ELEMENTS(numbers); i++)
    visitor->number(numbers[i], visitor->data);
  visit_list(visitor, along, G_N_ELEMENTS(along));
  visit_list(visitor, lead->a_batch, batches);
  visit_list(visitor, lead->b_batch, batches);
}

void visit_gemm(const FusedOperator *op, const BindingVisitor *visitor)
{
  const FusedGemm *gemm = gemm_of(op);
  const Symbolic *const expressions[] = {gemm->m,   gemm->n,   gemm->k,  gemm->a_m,
                                         gemm->a_k, gemm->b_k, gemm->b_n};
  const unsigned numbers[] = {gemm->n_batch,        gemm->a,         gemm->b,         gemm->products,
                              gemm->more[0],        gemm->a_m_major, gemm->b_n_major, gemm->a_type,
                              gemm->b_type,         gemm->acc_type,  gemm->groups,    gemm->sizes,
                              (unsigned)gemm->align};
  for (unsigned i = 0; i < G_N_ELEMENTS(numbers); i++)
    visitor->number(numbers[i], visitor->data);
  visit_list(visitor, expressions, G_N_ELEMENTS(expressions));
  visit_list(visitor, gemm->a_batch, gemm->n_batch);
  visit_list(visitor, gemm->b_batch, gemm->n_batch);
  for (unsigned i = 2; i < gemm->products; i++)
    visitor->number(gemm->more[i - 1], visitor->data);
  visitor->number(gemm->narrow, visitor->data);
  if (gemm->narrow) visit_weights(&gemm->weights, visitor);
  visitor->number(gemm->summed != NULL, visitor->data);
  if (gemm->summed)
    visit_list(visitor, (const Symbolic *const[]){gemm->summed, gemm->a_summed, gemm->b_summed}, 3);
  visitor->number(gemm->lead != NULL, visitor->data);
  if (gemm->lead) visit_lead(gemm->lead, gemm->n_batch, visitor);
  visitor->number(gemm->scaled, visitor->data);
  if (!gemm->scaled) return;
  const Symbolic *const along[] = {gemm->a_scale_k, gemm->b_scale_k};
  const int64_t blocks[] = {gemm->a_scale, gemm->b_scale, gemm->a_depth, gemm->b_depth, gemm->b_width};
  for (unsigned i = 0; i < G_N_ELEMENTS(blocks); i++)
    visitor->number((unsigned)blocks[i], visitor->data);
  visit_list(visitor, along, G_N_ELEMENTS(along));
}

unsigned types_gemm(const FusedOperator *op, NumberType *types)
{
  types[0] = gemm_of(op)->a_type;
  types[1] = gemm_of(op)->narrow ? gemm_of(op)->weights.type : gemm_of(op)->b_type;
  return 2;
}

unsigned extents_gemm(const FusedOperator *op, FamilyExtent *extents)
{
  const FusedGemm *gemm = gemm_of(op);
  unsigned n = 0;
  while (n < gemm->n_batch) {
    extents[n] = (FamilyExtent){"b", op->dims[n]};
    n++;
  }
  extents[n++] = (FamilyExtent){"m", gemm->m};
  extents[n++] = (FamilyExtent){"n", gemm->n};
  if (gemm->summed) extents[n++] = (FamilyExtent){"s", gemm->summed};
  extents[n++] = (FamilyExtent){"k", gemm->k};
  if (gemm->lead) extents[n++] = (FamilyExtent){"k", gemm->lead->k};
  return n;
}

static void describe_weights(const GemmWeights *weights, GString *text)
{
  static const char *const zeros[] = {"", ", zero points", ", zero point "};
  g_string_append_printf(text, "  weights of %s", number_name(weights->type));
  if (gemm_scales_columns(weights))
    g_string_append(text, " with scales of columns");
  else if (weights->depth)
    g_string_append_printf(text, " in blocks of %d", (int)weights->depth);
  g_string_append(text, zeros[weights->has_zero]);
  if (weights->has_zero == GEMM_ZERO_NUMBER) g_string_append_printf(text, "%d", (int)weights->number);
  g_string_append_c(text, '\n');
}

void describe_gemm(const FusedOperator *op, GString *text)
{
  const FusedGemm *gemm = gemm_of(op);
  g_string_append_printf(text, "  gemm %s x %s in %s, %u batch dims,", number_name(gemm->a_type),
                         number_name(gemm->b_type), number_name(gemm->acc_type), gemm->n_batch);
  fused_put_value(text, "m", gemm->m);
  fused_put_value(text, "n", gemm->n);
  fused_put_value(text, "k", gemm->k);
  static const char *const kinds[] = {"", "ends", "index", "counts", "ends along k"};
  if (gemm->summed) fused_put_value(text, "batches summed", gemm->summed);
  if (gemm->groups)
    g_string_append_printf(text, ", groups by %s align %d", kinds[gemm->groups], (int)gemm->align);
  g_string_append(text, "\n  a ");
  fused_put_tensor(text, op->inputs[gemm->a].tensor);
  fused_put_list(text, " batch ", gemm->a_batch, gemm->n_batch);
  fused_put_value(text, "m", gemm->a_m);
  fused_put_value(text, "k", gemm->a_k);
  g_string_append_printf(text, "%s\n  b ", gemm->a_m_major ? " m-major" : "");
  fused_put_tensor(text, op->inputs[gemm->b].tensor);
  fused_put_list(text, " batch ", gemm->b_batch, gemm->n_batch);
  fused_put_value(text, "k", gemm->b_k);
  fused_put_value(text, "n", gemm->b_n);
  g_string_append(text, gemm->b_n_major ? " n-major\n" : "\n");
  if (gemm->narrow) describe_weights(&gemm->weights, text);
  if (gemm->scaled)
    g_string_append_printf(text, "  scales of 1 x %d and %d x %d\n", (int)gemm->a_depth, (int)gemm->b_depth,
                           (int)gemm->b_width);
  if (gemm->lead) {
    g_string_append(text, "  begins with ");
    fused_put_tensor(text, op->inputs[gemm->lead->a].tensor);
    g_string_append(text, " by ");
    fused_put_tensor(text, op->inputs[gemm->lead->b].tensor);
    g_string_append_printf(text, " times %g,", gemm->lead->factor);
    fused_put_value(text, "k", gemm->lead->k);
    g_string_append_c(text, '\n');
  }
  for (unsigned i = 1; i < gemm->products; i++) {
    g_string_append_printf(text, "  b%u ", i + 1);
    fused_put_tensor(text, op->inputs[gemm->more[i - 1]].tensor);
    g_string_append(text, " as b\n");
  }
}

#define LEAD_STEPS 64 /* elements: a line of 16-bit floats, or half of one */

int64_t gemm_lead_step(const FusedGemm *gemm)
{
  int64_t k;
  if (!gemm->lead || !gemm->narrow) return 0;
  return symbolic_is_constant(gemm->lead->k, &k) && k <= LEAD_STEPS / 2 ? LEAD_STEPS / 2 : LEAD_STEPS;
}
