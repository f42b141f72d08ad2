/* Names to places: tiles in slots, barriers; what shares bytes in shared memory. */
#include "ir/facts.h"
#include "ir/protocol/protocol.h"

/* @x, @ab.a: the name of a declared thing. */
static const char *declared_name(const IrExpr *expr, char *buffer, gsize size)
{
  if (expr->kind == EXPR_SYMBOL)
    g_snprintf(buffer, size, "@%s", expr->name);
  else if (expr->kind == EXPR_FIELD && expr->items[0]->kind == EXPR_SYMBOL)
    g_snprintf(buffer, size, "@%s.%s", expr->items[0]->name, expr->name);
  else
    return NULL;
  return buffer;
}

static const Tile *find_tile(Program *program, const IrExpr *expr)
{
  char buffer[128];
  const char *name = declared_name(expr, buffer, sizeof buffer);
  for (unsigned i = 0; name && i < program->tiles->len; i++) {
    const Tile *tile = program->tiles->pdata[i];
    if (!strcmp(tile->name, name)) return tile;
  }
  return NULL;
}

/* One index: a range, or a single row. */
static void restrict_to(Program *program, Reference *reference, unsigned dim, const IrExpr *index)
{
  if (dim >= PROTOCOL_MAX_RANK || dim >= reference->rank) return;
  if (index->kind == EXPR_RANGE) {
    reference->low[dim] = scalar_new(program, index->items[0]);
    reference->high[dim] = scalar_new(program, index->items[1]);
    return;
  }
  reference->low[dim] = scalar_new(program, index);
  IrModule *module = program->module;
  reference->high[dim] =
      scalar_new(program, ir_binary(module, OPERATOR_ADD, (IrExpr *)index, ir_int(module, 1)));
}

/* @ab.a[%w], @ab.a[%w][0 .. 64, 0 .. 64], @x, @x[0 .. 64, 0 .. 64], any of them transposed. */
bool place_reference(Program *program, const IrExpr *expr, Reference *reference)
{
  const IrExpr *indices[PROTOCOL_MAX_RANK + 1];
  unsigned n = 0;
  expr = ir_untransposed(expr);
  const IrExpr *levels[4];
  unsigned depth = 0;
  for (; expr->kind == EXPR_INDEX && depth < G_N_ELEMENTS(levels); expr = expr->items[0])
    levels[depth++] = expr;
  memset(reference, 0, sizeof *reference);
  reference->tile = find_tile(program, expr);
  if (!reference->tile) return false;
  reference->rank = MIN(reference->tile->type->rank, PROTOCOL_MAX_RANK);
  while (depth--)
    for (unsigned i = 1; i < levels[depth]->n && n < G_N_ELEMENTS(indices); i++)
      indices[n++] = levels[depth]->items[i];
  unsigned used = 0;
  if (reference->tile->channel && n) reference->slot = scalar_new(program, indices[used++]);
  for (unsigned dim = 0; used < n; dim++)
    restrict_to(program, reference, dim, indices[used++]);
  return true;
}

bool barrier_reference(Program *program, const IrExpr *expr, BarrierReference *reference)
{
  char buffer[128];
  const IrExpr *base = expr->kind == EXPR_INDEX ? expr->items[0] : expr;
  const char *name = declared_name(base, buffer, sizeof buffer);
  memset(reference, 0, sizeof *reference);
  for (unsigned i = 0; name && i < program->families->len; i++) {
    const Family *family = program->families->pdata[i];
    if (strcmp(family->name, name)) continue;
    reference->family = family;
    reference->index = expr->kind == EXPR_INDEX && expr->n > 1 ? scalar_new(program, expr->items[1]) : NULL;
    return true;
  }
  return false;
}

/* ---- Bytes ---- */

static bool overlap(int64_t a, int64_t a_bytes, int64_t b, int64_t b_bytes)
{
  return a >= 0 && b >= 0 && a < b + b_bytes && b < a + a_bytes;
}

static bool check_barrier_places(Program *program, const Family *family, GError **error)
{
  if (family->at < 0 || !family->declared) return true;
  for (unsigned i = 0; i < program->tiles->len; i++) {
    const Tile *tile = program->tiles->pdata[i];
    if (!overlap(family->at, 8 * family->count, tile->at, tile->bytes * tile->slots)) continue;
    error_set(error, ERROR_INPUT, &family->op->mark, "overlap", NULL, "barriers %s share bytes with tile %s",
              family->name, tile->name);
    return false;
  }
  for (unsigned i = 0; i < program->families->len; i++) {
    const Family *other = program->families->pdata[i];
    if (other == family || !other->declared ||
        !overlap(family->at, 8 * family->count, other->at, 8 * other->count))
      continue;
    error_set(error, ERROR_INPUT, &family->op->mark, "overlap", NULL, "barriers %s share bytes with %s",
              family->name, other->name);
    return false;
  }
  return true;
}

static void find_aliases(Program *program)
{
  for (unsigned i = 0; i < program->tiles->len; i++)
    for (unsigned j = 0; j < program->tiles->len; j++) {
      const Tile *a = program->tiles->pdata[i], *b = program->tiles->pdata[j];
      if (a == b || !overlap(a->at, a->bytes * a->slots, b->at, b->bytes * b->slots)) continue;
      if (!program->alias) {
        program->alias = arena_new_array(program->arena, bool *, program->n_places);
        for (unsigned k = 0; k < program->n_places; k++)
          program->alias[k] = arena_new_array(program->arena, bool, program->n_places);
      }
      for (unsigned s = 0; s < a->slots; s++)
        for (unsigned t = 0; t < b->slots; t++)
          program->alias[a->first + s][b->first + t] =
              overlap(a->at + s * a->bytes, a->bytes, b->at + t * b->bytes, b->bytes);
    }
}

/* Tiles may share bytes (an epilogue's tile over drained slots): accesses to one then count as accesses to
 * the other. Barriers may not. */
bool layout_resources(Program *program, GError **error)
{
  for (unsigned i = 0; i < program->families->len; i++)
    if (!check_barrier_places(program, program->families->pdata[i], error)) return false;
  int64_t shared = 0;
  const IrExpr *launch = ir_launch_get(program->kernel, ATTR_SHARED_BYTES);
  bool bounded = launch && ir_expr_is_int(launch, &shared);
  for (unsigned i = 0; bounded && i < program->tiles->len; i++) {
    const Tile *tile = program->tiles->pdata[i];
    if (tile->at < 0 || tile->at + tile->bytes * tile->slots <= shared) continue;
    error_set(error, ERROR_INPUT, &tile->op->mark, "overlap", NULL,
              "tile %s ends at byte %" G_GINT64_FORMAT " of %" G_GINT64_FORMAT " shared bytes", tile->name,
              tile->at + tile->bytes * tile->slots, shared);
    return false;
  }
  for (unsigned i = 0; bounded && i < program->families->len; i++) {
    const Family *family = program->families->pdata[i];
    if (family->at < 0 || !family->declared || family->at + 8 * family->count <= shared) continue;
    error_set(error, ERROR_INPUT, &family->op->mark, "overlap", NULL,
              "barriers %s end at byte %" G_GINT64_FORMAT " of %" G_GINT64_FORMAT " shared bytes",
              family->name, family->at + 8 * family->count, shared);
    return false;
  }
  find_aliases(program);
  return true;
}
