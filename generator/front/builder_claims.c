/* What a description says of its outputs' types and shapes, against what follows from their nodes. */
#include "generator/front/private.h"

void graph_builder_claim(GraphBuilder *b, const GraphClaim *claim)
{
  GraphClaim copy = *claim;
  copy.name = arena_strdup(b->graph->arena, claim->name);
  copy.tensor = arena_strdup(b->graph->arena, claim->tensor);
  if (claim->rank != GRAPH_RANK_UNKNOWN)
    copy.extents = arena_memdup(b->graph->arena, claim->extents, claim->rank * sizeof *claim->extents);
  g_array_append_val(b->claims, copy);
}

/* An extent that is a symbol, or follows from some, may be any. */
static bool is_so(const GraphClaim *claim, const GraphTensor *tensor)
{
  unsigned type = onnx_type_number(tensor->type);
  bool open = claim->rank == GRAPH_RANK_UNKNOWN;
  if (claim->kind) return false;
  if (claim->type && type && claim->type != type) return false;
  if (!open && claim->rank != tensor->rank) return false;
  for (unsigned i = 0; !open && i < claim->rank; i++) {
    int64_t extent;
    if (claim->extents[i] >= 0 && symbolic_is_constant(tensor->shape[i], &extent) &&
        extent != claim->extents[i])
      return false;
  }
  return true;
}

static void add_type(GString *text, unsigned number)
{
  NumberType ours;
  const char *name = onnx_type_name(number);
  if (onnx_type_ours(number, &ours))
    g_string_append(text, number_name(ours));
  else
    g_string_append(text, name ? name : "of no type");
}

/* "f32 [2, ?]"; g_free. */
static char *claim_text(const GraphClaim *claim)
{
  GString *text = g_string_new(claim->kind);
  if (claim->type) add_type(text, claim->type);
  if (claim->rank != GRAPH_RANK_UNKNOWN) {
    g_string_append(text, text->len ? " [" : "[");
    for (unsigned i = 0; i < claim->rank; i++) {
      if (i) g_string_append(text, ", ");
      if (claim->extents[i] >= 0)
        g_string_append_printf(text, "%" G_GINT64_FORMAT, claim->extents[i]);
      else
        g_string_append_c(text, '?');
    }
    g_string_append_c(text, ']');
  }
  return g_string_free(text, FALSE);
}

void builder_check_claims(GraphBuilder *b)
{
  for (unsigned i = 0; i < b->claims->len; i++) {
    const GraphClaim *claim = &g_array_index(b->claims, GraphClaim, i);
    const GraphTensor *tensor = g_hash_table_lookup(b->tensors, claim->tensor);
    if (!tensor || tensor->type == TYPE_UNKNOWN || is_so(claim, tensor)) continue;
    g_autofree char *said = claim_text(claim), *shape = graph_shape_text(tensor->shape, tensor->rank);
    graph_builder_report(b, ERROR_INPUT, &claim->mark, "claim", NULL,
                         "output `%s` is declared as %s, and is %s %s", claim->name, said,
                         number_name(tensor->type), shape);
  }
}
