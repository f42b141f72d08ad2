#include "ir/passes/live_tiles.h"

typedef struct {
  unsigned first, last, registers;
} Life;

typedef struct {
  GHashTable *of; /* IrValue* -> index + 1 into lives */
  GArray *lives;  /* Life */
  unsigned at;    /* ops so far */
} Lives;

static unsigned registers_of(const IrType *type)
{
  return (unsigned)(((uint64_t)layout_registers(type->layout) * number_bits(type->element) + 31) / 32);
}

static void begin(Lives *lives, const IrValue *value)
{
  if (value->type.kind != TYPE_TILE || !value->type.layout) return;
  Life life = {lives->at, lives->at, registers_of(&value->type)};
  g_array_append_val(lives->lives, life);
  g_hash_table_insert(lives->of, (gpointer)value, GUINT_TO_POINTER(lives->lives->len));
}

static void use(const IrExpr *expr, void *data)
{
  Lives *lives = data;
  unsigned index =
      expr->kind == EXPR_VALUE ? GPOINTER_TO_UINT(g_hash_table_lookup(lives->of, expr->value)) : 0;
  if (index) g_array_index(lives->lives, Life, index - 1).last = lives->at;
}

/* What a loop uses of the values in front of it is there until its last iteration. */
static void stretch(Lives *lives, unsigned loop)
{
  for (unsigned i = 0; i < lives->lives->len; i++) {
    Life *life = &g_array_index(lives->lives, Life, i);
    if (life->first < loop && life->last >= loop) life->last = lives->at;
  }
}

static void walk(Lives *lives, const IrRegion *region)
{
  for (const IrOp *op = region->first; op; op = op->next) {
    lives->at++;
    for (unsigned i = 0; i < op->n_operands; i++)
      ir_expr_visit(op->operands[i], use, lives);
    for (unsigned i = 0; i < op->n_attributes; i++)
      if (op->attributes[i].value) ir_expr_visit(op->attributes[i].value, use, lives);
    for (unsigned i = 0; i < op->n_results; i++)
      begin(lives, op->results[i]);
    unsigned loop = lives->at;
    for (unsigned i = 0; i < op->n_regions; i++)
      walk(lives, op->regions[i]);
    if (op->code == OP_FOR || op->code == OP_LOOP) stretch(lives, loop);
  }
}

unsigned live_tile_registers(const IrRegion *region)
{
  g_autoptr(GHashTable) of = g_hash_table_new(NULL, NULL);
  g_autoptr(GArray) all = g_array_new(FALSE, FALSE, sizeof(Life));
  Lives lives = {of, all, 0};
  walk(&lives, region);
  unsigned most = 0;
  for (unsigned i = 0; i < all->len; i++) {
    unsigned at = g_array_index(all, Life, i).first, sum = 0; /* a peak lies where a life begins */
    for (unsigned j = 0; j < all->len; j++) {
      const Life *life = &g_array_index(all, Life, j);
      bool there =
          life->first == at || (life->first < at && life->last > at); /* results take their operands' place */
      if (there) sum += life->registers;
    }
    most = MAX(most, sum);
  }
  return most;
}
