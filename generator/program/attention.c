/* What other code asks of the family of attention. */
#include "generator/program/attention.h"
#include "generator/program/fused_text.h"

static void visit_operand(const AttentionOperand *operand, const BindingVisitor *visitor)
{
  visitor->number(operand->input, visitor->data);
  for (unsigned d = 0; d < G_N_ELEMENTS(operand->strides); d++)
    visitor->expression(operand->strides[d], visitor->data);
}

void attention_visit_bounds(const AttentionBound *bounds, unsigned n, const BindingVisitor *visitor)
{
  visitor->number(n, visitor->data);
  for (unsigned i = 0; i < n; i++) {
    visitor->number(2 * bounds[i].from_row + bounds[i].least, visitor->data);
    visitor->expression(bounds[i].number, visitor->data);
    visitor->operand(&bounds[i].limit, visitor->data);
  }
}

void visit_attention(const FusedOperator *op, const BindingVisitor *visitor)
{
  const FusedAttention *attention = attention_of(op);
  const Symbolic *const extents[] = {attention->batches, attention->heads, attention->rows, attention->keys,
                                     attention->depth,   attention->width, attention->group};
  for (unsigned i = 0; i < G_N_ELEMENTS(extents); i++)
    visitor->expression(extents[i], visitor->data);
  visit_operand(&attention->queries, visitor);
  visit_operand(&attention->key_matrix, visitor);
  visit_operand(&attention->values, visitor);
  visitor->number(attention->type, visitor->data);
  visitor->number(attention->stored, visitor->data);
  visitor->operand(&attention->score, visitor->data);
  visitor->real(attention->scale, visitor->data);
  visitor->number(attention->scaled ? attention->scale_input + 1 : 0, visitor->data);
  visitor->number((unsigned)attention->by_group, visitor->data);
  visitor->number((unsigned)(attention->by_group >> 32), visitor->data);
  visitor->number(attention->causal, visitor->data);
  visitor->expression(attention->diagonal, visitor->data);
  attention_visit_bounds(attention->bounds, attention->n_bounds, visitor);
  visitor->number(attention->n_indices, visitor->data);
  for (unsigned i = 0; i < attention->n_indices; i++) {
    const AttentionIndex *index = &attention->indices[i];
    const Symbolic *const parts[] = {index->row, index->key, index->number};
    visitor->number(index->type, visitor->data);
    for (unsigned j = 0; index->number && j < G_N_ELEMENTS(parts); j++)
      visitor->expression(parts[j], visitor->data);
  }
  const AttentionSequences *sequences = &attention->sequences;
  if (sequences->packed) {
    visitor->number(8 + 4 * sequences->own + 2 * sequences->packed_keys + sequences->ending, visitor->data);
    visitor->number(sequences->ends, visitor->data);
    visitor->number(sequences->lengths, visitor->data);
    visitor->expression(sequences->of_ends, visitor->data);
    visitor->expression(sequences->of_lengths, visitor->data);
  }
  if (attention->tree.taken) visitor->number(attention->tree.input, visitor->data);
  const AttentionJoined *joined = &attention->joined;
  for (unsigned i = 0; joined->taken && i < G_N_ELEMENTS(joined->rows); i++) {
    visitor->number(joined->place, visitor->data);
    visitor->number(joined->bound, visitor->data);
    visitor->number(joined->rows[i], visitor->data);
    visitor->number(joined->caches[i], visitor->data);
    visitor->number(joined->unread[i], visitor->data);
  }
  const AttentionPages *pages = &attention->pages;
  if (!pages->rows) return;
  visitor->number(pages->rows, visitor->data);
  visitor->number(pages->table, visitor->data);
  const Symbolic *const of_pages[] = {pages->columns, pages->step, pages->count, pages->strides[0],
                                      pages->strides[1]};
  for (unsigned i = 0; i < G_N_ELEMENTS(of_pages); i++)
    visitor->expression(of_pages[i], visitor->data);
  for (unsigned i = 0; i < G_N_ELEMENTS(pages->scales); i++) {
    if (!pages->scales[i]) continue;
    visitor->number(i ? attention->scale_input : attention->key_scale_input, visitor->data);
    visitor->expression(pages->scales[i], visitor->data);
  }
}

static void describe_operand(const FusedOperator *op, const AttentionOperand *operand, const char *name,
                             const char *along, GString *text)
{
  g_string_append_printf(text, "  %s ", name);
  fused_put_tensor(text, op->inputs[operand->input].tensor);
  fused_put_value(text, "batch", operand->strides[0]);
  fused_put_value(text, "head", operand->strides[1]);
  fused_put_value(text, along, operand->strides[2]);
  fused_put_value(text, "element", operand->strides[3]);
  g_string_append_c(text, '\n');
}

void attention_describe_bounds(const FusedOperator *op, const AttentionBound *bounds, unsigned n,
                               GString *text)
{
  for (unsigned i = 0; i < n; i++) {
    fused_put_value(text,
                    arena_printf(op->program->arena, ", %s %s", bounds[i].from_row ? "key - row" : "key",
                                 bounds[i].least ? ">=" : "<="),
                    bounds[i].number);
    if (bounds[i].limit.kind == OPERAND_IMMEDIATE) continue;
    g_string_append(text, " + ");
    fused_put_operand(text, op, &bounds[i].limit);
  }
}

void describe_attention(const FusedOperator *op, GString *text)
{
  const FusedAttention *attention = attention_of(op);
  g_string_append_printf(text, "  attention %s,", number_name(attention->type));
  if (attention->stored != attention->type)
    g_string_append_printf(text, " of keys and values in %s,", number_name(attention->stored));
  fused_put_value(text, "rows", attention->rows);
  fused_put_value(text, "keys", attention->keys);
  fused_put_value(text, "depth", attention->depth);
  fused_put_value(text, "width", attention->width);
  fused_put_value(text, "heads", attention->heads);
  fused_put_value(text, "of which share keys", attention->group);
  g_string_append_printf(text, " scale %.9g of ", attention->scale);
  fused_put_operand(text, op, &attention->score);
  if (attention->causal) fused_put_value(text, ", keys up to row +", attention->diagonal);
  attention_describe_bounds(op, attention->bounds, attention->n_bounds, text);
  g_string_append_c(text, '\n');
  const AttentionPages *pages = &attention->pages;
  if (pages->rows) {
    g_string_append_printf(text, "  pages of %" G_GINT64_FORMAT " rows by ", pages->rows);
    fused_put_tensor(text, op->inputs[pages->table].tensor);
    fused_put_value(text, "pages", pages->count);
    fused_put_value(text, "keys' page", pages->strides[0]);
    fused_put_value(text, "values' page", pages->strides[1]);
    g_string_append_c(text, '\n');
  }
  const AttentionSequences *sequences = &attention->sequences;
  if (sequences->packed) {
    g_string_append(text, "  sequences whose rows end as ");
    fused_put_tensor(text, op->inputs[sequences->ends].tensor);
    g_string_append_printf(text, "%s, keys %s ", sequences->ending ? ", masks from their ends" : "",
                           sequences->packed_keys || sequences->own ? "end as" : "as many as");
    fused_put_tensor(text, op->inputs[sequences->lengths].tensor);
    g_string_append_c(text, '\n');
  }
  if (attention->tree.taken) {
    g_string_append(text, "  keys that rows brought along by bits of ");
    fused_put_tensor(text, op->inputs[attention->tree.input].tensor);
    g_string_append_c(text, '\n');
  }
  const AttentionJoined *joined = &attention->joined;
  for (unsigned i = 0; joined->taken && i < G_N_ELEMENTS(joined->rows); i++) {
    g_string_append(text, i ? "  new values " : "  new keys ");
    fused_put_tensor(text, op->inputs[joined->rows[i]].tensor);
    g_string_append(text, " stand at ");
    fused_put_tensor(text, op->inputs[joined->place].tensor);
    g_string_append(text, " of ");
    fused_put_tensor(text, op->outputs[joined->caches[i]].tensor);
    g_string_append_c(text, '\n');
  }
  describe_operand(op, &attention->queries, "queries", "row", text);
  describe_operand(op, &attention->key_matrix, "keys", "key", text);
  describe_operand(op, &attention->values, "values", "key", text);
}

unsigned types_attention(const FusedOperator *op, NumberType *types)
{
  const FusedAttention *attention = attention_of(op);
  types[0] = attention->type;
  types[1] = attention->stored;
  return attention->stored == attention->type ? 1 : 2;
}

unsigned extents_attention(const FusedOperator *op, FamilyExtent *extents)
{
  const FusedAttention *attention = attention_of(op);
  const FamilyExtent all[] = {{"b", attention->batches}, {"h", attention->heads}, {"g", attention->group},
                              {"m", attention->rows},    {"t", attention->keys},  {"d", attention->depth},
                              {"e", attention->width}};
  unsigned n = 0;
  for (unsigned i = 0; i < G_N_ELEMENTS(all); i++)
    extents[n++] = all[i];
  return n;
}

const FusedOperator *turned_attention(Arena *arena, const FusedOperator *op)
{
  return NULL;
}

const Symbolic *attention_parts(const FusedAttention *attention, Arena *arena, int64_t places, int64_t most,
                                int64_t least)
{
  const Symbolic *one = symbolic_constant(arena, 1);
  const Symbolic *heads =
      symbolic_binary(arena, SYMBOLIC_MAX, symbolic_mul(arena, attention->batches, attention->heads), one);
  const Symbolic *parts = symbolic_binary(arena, SYMBOLIC_DIV, symbolic_constant(arena, places), heads);
  parts = symbolic_binary(arena, SYMBOLIC_MIN, parts, symbolic_constant(arena, most));
  parts = symbolic_binary(arena, SYMBOLIC_MIN, parts,
                          symbolic_ceil_div(arena, attention->keys, symbolic_constant(arena, least)));
  return symbolic_binary(arena, SYMBOLIC_MAX, parts, one);
}
