/* The verifier's view of expressions and types. */
#include "ir/calls.h"
#include "ir/facts.h"
#include "ir/verifier.h"
#include <string.h>

static const Mark *place(const IrExpr *expr, const IrOp *op)
{
  return expr->mark.source || !op ? &expr->mark : &op->mark;
}

static char *did_you_mean(const char *sigil, const char *name, GHashTable *table)
{
  const char *nearest = nearest_key(name, table);
  return nearest ? g_strdup_printf("did you mean `%s%s`?", sigil, nearest) : NULL;
}

static bool constant_leaf(const Verifier *verifier, const IrExpr *expr)
{
  switch (expr->kind) {
  case EXPR_INT: return true;
  case EXPR_PARAMETER: return verifier->templated;
  case EXPR_DIM: return verifier->templated && !verifier->function->is_kernel;
  case EXPR_NAME: return verifier->templated;
  case EXPR_UNARY:
  case EXPR_BINARY:
  case EXPR_SELECT: return true;
  case EXPR_CALL: return expr->n > 0;
  default: return false;
  }
}

bool verify_is_constant_later(const Verifier *verifier, const IrExpr *expr)
{
  if (!constant_leaf(verifier, expr)) return false;
  for (unsigned i = 0; i < expr->n; i++)
    if (!verify_is_constant_later(verifier, expr->items[i])) return false;
  return expr->kind == EXPR_INT || verifier->templated;
}

/* ---- Leaves ---- */

/* The order in a pipelined loop is that of its steady state, where what stage 1 reads was computed an iteration before. */
static bool comes_from_before(const IrValue *value, const IrOp *op)
{
  bool second = false;
  if (!value->def || ir_attribute_int(value->def, ATTR_STAGE, 1) != 0) return false;
  for (; op && op->parent; op = op->parent->owner) {
    const IrOp *loop = op->parent->owner;
    second |= ir_attribute_int(op, ATTR_STAGE, 0) == 1;
    if (second && loop && ir_attribute(loop, ATTR_PIPELINED) && value->def->parent == op->parent) return true;
  }
  return false;
}

static void check_value(Verifier *verifier, const IrExpr *expr, const IrOp *op, bool several)
{
  const IrValue *value = expr->value;
  if (!several && ir_is_several(expr))
    verify_fault(verifier, place(expr, op), "several", NULL, "`%%%s` is several variables: `%%%s[i]` is one",
                 value->name, value->name);
  bool ours = value->id < verifier->values->len && verifier->values->pdata[value->id] == value;
  if (ours && (verifier->visible->data[value->id] || comes_from_before(value, op))) return;
  verify_fault(verifier, place(expr, op), "not-defined", NULL,
               ours ? "`%%%s` is used before its definition, or outside the region that defines it"
                    : "`%%%s` is not a value of this function",
               value->name ? value->name : "?");
}

static void check_symbol(Verifier *verifier, const IrExpr *expr, const IrOp *op)
{
  if (g_hash_table_contains(verifier->symbols, expr->name)) return;
  if (ir_function_find(verifier->module, expr->name)) return;
  if (verifier->faults >= VERIFY_MAX_FAULTS) return;
  g_autofree char *hint = did_you_mean("@", expr->name, verifier->symbols);
  verify_fault(verifier, place(expr, op), "undefined", hint, "nothing declares `@%s`", expr->name);
}

static void check_parameter(Verifier *verifier, const IrExpr *expr, const IrOp *op)
{
  const char *names[257];
  unsigned n = MIN(verifier->module->n_parameters, G_N_ELEMENTS(names) - 1);
  for (unsigned i = 0; i < verifier->module->n_parameters; i++)
    if (!strcmp(verifier->module->parameters[i].name, expr->name)) {
      g_hash_table_add(verifier->used, (gpointer)expr->name);
      return;
    }
  for (unsigned i = 0; i < n; i++)
    names[i] = verifier->module->parameters[i].name;
  names[n] = NULL;
  const char *nearest = nearest_name(expr->name, names);
  g_autofree char *hint = nearest ? g_strdup_printf("did you mean `$%s`?", nearest) : NULL;
  verify_fault(verifier, place(expr, op), "undefined", hint, "parameter `$%s` is not declared", expr->name);
}

/* ---- Composed expressions ---- */

static void check_field(Verifier *verifier, const IrExpr *expr, const IrOp *op)
{
  const IrExpr *base = expr->items[0];
  if (base->kind == EXPR_VALUE && base->value->type.kind == TYPE_CURSOR) {
    if (!strcmp(expr->name, "slot") || !strcmp(expr->name, "phase")) return;
    verify_fault(verifier, place(expr, op), "field", NULL, "a cursor has the fields slot and phase, not `%s`",
                 expr->name);
    return;
  }
  const IrOp *channel = base->kind == EXPR_SYMBOL ? g_hash_table_lookup(verifier->symbols, base->name) : NULL;
  if (base->kind == EXPR_SYMBOL && !channel) return; /* reported as undefined */
  if (!channel || channel->code != OP_CHANNEL) {
    verify_fault(verifier, place(expr, op), "field", NULL,
                 "only channels and cursors have fields, such as `.%s`", expr->name);
    return;
  }
  if (!strcmp(expr->name, "full") || !strcmp(expr->name, "empty") || ir_slot_find(channel, expr->name))
    return;
  verify_fault(verifier, place(expr, op), "field", NULL, "channel `@%s` has no tile `%s`", base->name,
               expr->name);
}

static void check_register_index(Verifier *verifier, const IrExpr *expr, const IrOp *op, const IrType *base)
{
  const IrExpr *index = expr->items[1];
  int64_t low, high;
  bool range = index->kind == EXPR_RANGE;
  bool constant = range ? ir_expr_is_int(index->items[0], &low) && ir_expr_is_int(index->items[1], &high)
                        : ir_expr_is_int(index, &low);
  if (constant && !range) high = low + 1;
  if (!constant || expr->n != 2)
    verify_fault(verifier, place(expr, op), "register-index", NULL, "registers are indexed by one constant");
  else if (low < 0 || high <= low || high > base->count)
    verify_fault(verifier, place(expr, op), "register-index", NULL,
                 "index %" G_GINT64_FORMAT " is outside the array's %u registers", range ? high - 1 : low,
                 base->count);
}

static bool is_slot_access(const IrExpr *base)
{
  return base->kind == EXPR_FIELD && base->items[0]->kind == EXPR_SYMBOL;
}

static void check_index(Verifier *verifier, const IrExpr *expr, const IrOp *op)
{
  const IrExpr *base = expr->items[0];
  unsigned indices = expr->n - 1;
  if (ir_is_several(base)) {
    if (indices != 1 || expr->items[1]->kind == EXPR_RANGE)
      verify_fault(verifier, place(expr, op), "several", NULL, "`%%%s` takes one index", base->value->name);
    return;
  }
  if (is_slot_access(base) && indices == 1 && expr->items[1]->kind != EXPR_RANGE) return; /* a slot */
  if (base->kind == EXPR_SYMBOL) {
    const IrOp *declaration = g_hash_table_lookup(verifier->symbols, base->name);
    if (!declaration || declaration->code == OP_BARRIER || declaration->code == OP_TURN) return;
  }
  IrType type = ir_expr_type(verifier->function, base);
  if (type.kind == TYPE_TENSOR || type.kind == TYPE_TILE) {
    if (indices != type.rank)
      verify_fault(verifier, place(expr, op), "rank", NULL, "a %s of rank %u takes as many indices, not %u",
                   type.kind == TYPE_TILE ? "tile" : "tensor", type.rank, indices);
  } else if (type.kind == TYPE_SCALAR && type.count > 1) {
    check_register_index(verifier, expr, op, &type);
  } else {
    verify_fault(verifier, place(expr, op), "index", NULL, "this has nothing to index");
  }
}

static void check_infix(Verifier *verifier, const IrExpr *expr, const IrOp *op)
{
  for (unsigned i = 0; i < expr->n; i++) {
    IrTypeKind kind = ir_expr_type(verifier->function, expr->items[i]).kind;
    if (kind == TYPE_TILE)
      verify_fault(verifier, place(expr, op), "infix", "use an operation such as add or lt",
                   "infix operators are for scalars, not tiles");
    else if (kind == TYPE_TENSOR || kind == TYPE_CURSOR)
      verify_fault(verifier, place(expr, op), "infix", NULL, "a %s is not a number",
                   kind == TYPE_TENSOR ? "tensor" : "cursor");
    else
      continue;
    return;
  }
  bool divides = expr->operator_ == OPERATOR_DIV || expr->operator_ == OPERATOR_MOD;
  if (expr->kind == EXPR_BINARY && divides && ir_expr_is_int(expr->items[1], NULL) &&
      !expr->items[1]->integer)
    verify_fault(verifier, place(expr, op), "division-by-zero", NULL, "division by zero");
}

static void check_call(Verifier *verifier, const IrExpr *expr, const IrOp *op)
{
  const IrCallInfo *info = ir_call_info(expr->name);
  if (!info || info->arguments != expr->n)
    verify_fault(verifier, place(expr, op), "unknown-function", NULL, "`%s` with %u arguments is not known",
                 expr->name, expr->n);
  else if (info->encoded && verifier->module->level != IR_THREAD)
    verify_fault(verifier, place(expr, op), "level", NULL, "`%s()` is legal at level thread only",
                 expr->name);
  else if (!info->constant && !info->encoded && verifier->module->level == IR_THREAD)
    verify_fault(verifier, place(expr, op), "level", NULL, "`%s()` is a `special` of its own at this level",
                 expr->name);
}

static bool words_below(const IrExpr *expr)
{
  bool compares =
      expr->kind == EXPR_BINARY && (expr->operator_ == OPERATOR_EQ || expr->operator_ == OPERATOR_NE);
  return compares ||
         (expr->kind == EXPR_CALL && (!strcmp(expr->name, "bits") || !strcmp(expr->name, "bytes")));
}

static unsigned allowed_below(const Verifier *verifier, const IrExpr *expr, unsigned allowed)
{
  switch (expr->kind) {
  case EXPR_INDEX: return ALLOW_RANGE | ALLOW_TILES | (ir_is_several(expr->items[0]) ? ALLOW_SEVERAL : 0);
  case EXPR_FIELD:
  case EXPR_TRANSPOSED:
  case EXPR_LIST: return (allowed & ALLOW_WORDS) | ALLOW_TILES | ALLOW_RANGE;
  default: return verifier->templated && words_below(expr) ? ALLOW_WORDS : 0;
  }
}

void verify_expr(Verifier *verifier, const IrExpr *expr, const IrOp *op, unsigned allowed)
{
  switch (expr->kind) {
  case EXPR_VALUE: check_value(verifier, expr, op, allowed & ALLOW_SEVERAL); break;
  case EXPR_SYMBOL: check_symbol(verifier, expr, op); break;
  case EXPR_PARAMETER: check_parameter(verifier, expr, op); break;
  case EXPR_DIM:
    if (!ir_dim_find(verifier->function, expr->name))
      verify_fault(verifier, place(expr, op), "undefined", NULL, "`%s` is not a dim of this function",
                   expr->name);
    break;
  case EXPR_NAME:
    if (!(allowed & ALLOW_WORDS))
      verify_fault(verifier, place(expr, op), "keyword", NULL, "`%s` is a keyword, not a number", expr->name);
    break;
  case EXPR_UNARY:
  case EXPR_BINARY: check_infix(verifier, expr, op); break;
  case EXPR_CALL: check_call(verifier, expr, op); break;
  case EXPR_FIELD: check_field(verifier, expr, op); break;
  case EXPR_INDEX: check_index(verifier, expr, op); break;
  case EXPR_RANGE:
    if (!(allowed & ALLOW_RANGE))
      verify_fault(verifier, place(expr, op), "range", NULL, "a range has no place here");
    break;
  case EXPR_LIST:
    if (!(allowed & ALLOW_LIST))
      verify_fault(verifier, place(expr, op), "list", NULL, "a list has no place here");
    break;
  default: break;
  }
  unsigned below = allowed_below(verifier, expr, allowed);
  for (unsigned i = 0; i < expr->n; i++)
    verify_expr(verifier, expr->items[i], op, below);
}

/* ---- Types ---- */

/* An extent that is no constant: that of a row, or of a part of it, where there are rows. */
static void check_row_extent(Verifier *verifier, const IrExpr *extent, const Mark *mark, const char *what)
{
  IrModule *module = (IrModule *)verifier->module;
  const char *text = ir_expr_text(module, extent);
  const IrExpr *row = verifier->rows ? ir_attribute_value(verifier->rows, ATTR_ROW) : NULL;
  if (!row) {
    g_autofree char *hint = g_strdup_printf("only what stands in `tiles ... row %s` may have it", text);
    verify_fault(verifier, mark, "extent", hint, "the extent `%s` of %s is no constant", text, what);
  } else if (!ir_row_extent(extent, row, NULL)) {
    const char *whole = ir_expr_text(module, row);
    g_autofree char *hint = g_strdup_printf("`%s`, `%s / n` or `ceil_div(%s, n)`", whole, whole, whole);
    verify_fault(verifier, mark, "extent", hint,
                 "the extent `%s` of %s is neither that of a row nor a part of it", text, what);
  }
}

/* A tensor may be empty, and have more elements than 32 bits count: addresses have 64. */
static void check_extents(Verifier *verifier, const IrType *type, const Mark *mark, const char *what)
{
  int64_t all = 1, least = type->kind == TYPE_TILE, most = least ? G_MAXINT32 : G_MAXINT64 / 64;
  for (unsigned i = 0; i < type->rank; i++) {
    int64_t extent;
    if (ir_expr_is_int(type->dims[i], &extent)) {
      if (extent < least || extent > most || __builtin_mul_overflow(all, extent, &all) || all > most) {
        verify_fault(verifier, mark, "extent", NULL, "%s has an extent that is %s, or too many elements",
                     what, least ? "not positive" : "negative");
        return;
      }
    } else if (type->kind == TYPE_TILE && !verify_is_constant_later(verifier, type->dims[i])) {
      check_row_extent(verifier, type->dims[i], mark, what);
      return;
    }
  }
}

static void check_layout(Verifier *verifier, const IrType *type, const Mark *mark, const char *what)
{
  const Layout *layout = type->layout;
  bool same = layout->rank == type->rank;
  for (unsigned i = 0; i < type->rank && same; i++)
    same = type->dims[i]->kind == EXPR_INT && type->dims[i]->integer == layout->extent[i];
  if (!same)
    verify_fault(verifier, mark, "layout", NULL, "the layout of %s has other extents than the tile", what);
}

void verify_type(Verifier *verifier, const IrType *type, const Mark *mark, const char *what)
{
  IrLevel level = verifier->module->level;
  if (type->element_parameter) verify_expr(verifier, type->element_parameter, NULL, 0);
  for (unsigned i = 0; i < type->rank; i++) {
    verify_expr(verifier, type->dims[i], NULL, 0);
    if (type->strides[i]) verify_expr(verifier, type->strides[i], NULL, 0);
  }
  if (type->kind == TYPE_TILE || type->kind == TYPE_TENSOR) check_extents(verifier, type, mark, what);
  if (type->kind == TYPE_TILE && level == IR_THREAD)
    verify_fault(verifier, mark, "level", NULL, "%s is a tile; there are none at this level", what);
  else if (type->kind == TYPE_TILE && type->layout)
    check_layout(verifier, type, mark, what);
  else if (type->kind == TYPE_TILE && level == IR_STAGED)
    verify_fault(verifier, mark, "layout", NULL, "%s has no layout", what);
  if (type->kind == TYPE_CURSOR && level != IR_STAGED)
    verify_fault(verifier, mark, "level", NULL, "%s is a cursor; they exist at level staged only", what);
  if (type->kind == TYPE_SCALAR && type->count > 1 && level != IR_THREAD)
    verify_fault(verifier, mark, "level", NULL, "%s is a register array; they exist at level thread only",
                 what);
  if (type->kind == TYPE_NONE) verify_fault(verifier, mark, "type", NULL, "%s has no type", what);
}
