/* The verifier's rules for single operations: shapes, element types, variables, control. */
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/reducer.h"
#include "ir/verifier.h"
#include <string.h>

static void fault(Verifier *verifier, const IrOp *op, const char *code, const char *format, ...)
    G_GNUC_PRINTF(4, 5);
static void fault(Verifier *verifier, const IrOp *op, const char *code, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  g_autofree char *message = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  verify_fault(verifier, &op->mark, code, NULL, "%s", message);
}

static IrType type_of(const Verifier *verifier, const IrExpr *expr)
{
  return ir_expr_type(verifier->function, expr);
}

/* Types whose elements or extents a parameter still stands for are not compared. */
static bool open_element(const IrType *type)
{
  return type->kind == TYPE_NONE || type->element_parameter;
}

static bool same_element(const IrType *a, const IrType *b)
{
  if (open_element(a) || open_element(b) || a->element == b->element) return true;
  /* tf32 is f32 storage. */
  bool f32 = a->element == NUMBER_F32 || a->element == NUMBER_TF32;
  return f32 && (b->element == NUMBER_F32 || b->element == NUMBER_TF32);
}

static char *shape_text(const Verifier *verifier, const IrType *type)
{
  GString *text = g_string_new("[");
  for (unsigned i = 0; i < type->rank; i++)
    g_string_append_printf(text, "%s%s", i ? ", " : "",
                           ir_expr_text((IrModule *)verifier->module, type->dims[i]));
  g_string_append_c(text, ']');
  return g_string_free(text, FALSE);
}

static bool same_extent(const Verifier *verifier, const IrExpr *a, const IrExpr *b)
{
  if (ir_expr_equal(a, b)) return true;
  return verifier->templated && (a->kind != EXPR_INT || b->kind != EXPR_INT);
}

static bool same_shape(const Verifier *verifier, const IrType *a, const IrType *b)
{
  if (a->rank != b->rank) return false;
  for (unsigned i = 0; i < a->rank; i++)
    if (!same_extent(verifier, a->dims[i], b->dims[i])) return false;
  return true;
}

void verify_same_tile(Verifier *verifier, const IrOp *op, const IrType *a, const IrType *b)
{
  if (a->kind != TYPE_TILE || b->kind != TYPE_TILE) return;
  if (!same_shape(verifier, a, b)) {
    g_autofree char *x = shape_text(verifier, a), *y = shape_text(verifier, b);
    fault(verifier, op, "shape", "the tiles have shapes %s and %s", x, y);
  } else if (!same_element(a, b)) {
    fault(verifier, op, "element-type", "the tiles have element types %s and %s", number_name(a->element),
          number_name(b->element));
  }
}

/* ---- Elementwise arithmetic ---- */

static bool is_comparison(IrOpcode code)
{
  return code >= OP_LT && code <= OP_NE;
}

/* An operand may be a tile of the result's shape, one that broadcasts to it, or a scalar. */
static void check_broadcast(Verifier *verifier, const IrOp *op, const IrType *operand, const IrType *result)
{
  if (operand->kind != TYPE_TILE) return;
  bool fits = result->kind == TYPE_TILE && operand->rank == result->rank, whole = true;
  for (unsigned i = 0; i < operand->rank && fits; i++) {
    bool same = same_extent(verifier, operand->dims[i], result->dims[i]);
    bool one = operand->dims[i]->kind == EXPR_INT && operand->dims[i]->integer == 1;
    fits = same || one;
    whole = whole && ir_expr_equal(operand->dims[i], result->dims[i]);
  }
  if (!fits) {
    g_autofree char *x = shape_text(verifier, operand), *y = shape_text(verifier, result);
    fault(verifier, op, "shape", "an operand of shape %s does not broadcast to the result's %s", x,
          result->kind == TYPE_TILE ? y : "scalar");
  } else if (whole && operand->layout && result->layout && !layout_equal(operand->layout, result->layout)) {
    fault(verifier, op, "layout", "an operand has another layout than the result");
  }
}

/* Element types agree but for what casts and comparisons are there for. A scalar integer may be of another
 * width than the tile it meets: it is a coordinate. */
static void check_elements(Verifier *verifier, const IrOp *op, const IrType *operand, const IrType *with)
{
  if (open_element(operand) || open_element(with) || with->kind == TYPE_CURSOR) return;
  if (operand->kind == TYPE_PREDICATE || with->kind == TYPE_PREDICATE) return;
  if (same_element(operand, with)) return;
  NumberClass a = number_class(operand->element), b = number_class(with->element);
  bool scalar = operand->kind == TYPE_SCALAR || with->kind == TYPE_SCALAR;
  if (scalar && a != NUMBER_FLOAT && b != NUMBER_FLOAT) return;
  if (verifier->module->level == IR_THREAD && number_bits(operand->element) == number_bits(with->element))
    return;
  fault(verifier, op, "element-type", "element types %s and %s do not mix; cast one",
        number_name(operand->element), number_name(with->element));
}

static bool is_truth(const IrType *type)
{
  return type->kind == TYPE_NONE || type->kind == TYPE_PREDICATE || type->element_parameter ||
         type->element == NUMBER_BOOL;
}

static void check_elementwise(Verifier *verifier, const IrOp *op)
{
  const IrType *result = &op->results[0]->type;
  bool converts = op->code == OP_CAST || op->code == OP_BITCAST;
  bool shifts = op->code == OP_SHL || op->code == OP_SHR;
  IrType first = {.kind = TYPE_NONE};
  for (unsigned i = 0; i < op->n_operands; i++) {
    IrType operand = type_of(verifier, op->operands[i]);
    check_broadcast(verifier, op, &operand, result);
    if (ir_place_of(&operand) == IN_ACCUMULATORS)
      fault(verifier, op, "place", "an operand lies in accumulator memory: `get` it first");
    if (op->code == OP_SELECT && i == 0) {
      if (!is_truth(&operand)) fault(verifier, op, "element-type", "the condition of `select` must be bool");
      continue;
    }
    if (converts || (shifts && i == 1)) continue;
    if (first.kind == TYPE_NONE) first = operand;
    check_elements(verifier, op, &operand, is_comparison(op->code) ? &first : result);
  }
  if (is_comparison(op->code) && !is_truth(result))
    fault(verifier, op, "element-type", "a comparison gives bool");
  bool bits = (op->code >= OP_AND && op->code <= OP_NOT) || shifts;
  if (bits && !open_element(result) && number_class(result->element) == NUMBER_FLOAT)
    fault(verifier, op, "element-type", "`%s` is not for floating point", ir_op_info(op->code)->name);
  if (op->code != OP_BITCAST) return;
  IrType operand = type_of(verifier, op->operands[0]);
  if (!open_element(&operand) && !open_element(result) &&
      number_bits(operand.element) != number_bits(result->element))
    fault(verifier, op, "element-type", "`bitcast` keeps the width; %s and %s differ",
          number_name(operand.element), number_name(result->element));
}

/* ---- Memory ---- */

/* A tensor at a corner and the tile that is moved: the tile lies along the tensor's last dimensions. */
static void check_corner(Verifier *verifier, const IrOp *op, const IrExpr *corner, const IrType *tile)
{
  IrType tensor = type_of(verifier, corner);
  if (tensor.kind != TYPE_TENSOR) {
    if (op->code != OP_COPY && op->code != OP_GATHER && op->code != OP_SCATTER)
      fault(verifier, op, "operand", "`%s` needs a tensor at a corner, such as A[%%i, 0]",
            ir_op_info(op->code)->name);
    return;
  }
  if (tile->kind == TYPE_TILE && tile->rank > tensor.rank && corner->kind == EXPR_INDEX)
    fault(verifier, op, "rank", "a tile of rank %u does not fit a tensor of rank %u", tile->rank,
          tensor.rank);
  if (!open_element(tile) && !same_element(tile, &tensor))
    fault(verifier, op, "element-type", "the tile's element type is %s, the tensor's %s",
          number_name(tile->element), number_name(tensor.element));
}

static bool is_value(const IrExpr *expr)
{
  return expr->kind == EXPR_VALUE;
}

/* A tile of a channel takes a tensor from a corner on, or a tile that the kernel has computed. */
static void check_fill(Verifier *verifier, const IrOp *op, const IrType *slot, const IrType *from)
{
  static const IrAttributeKey of_tensors[] = {ATTR_VIA, ATTR_CACHE, ATTR_SIZE, ATTR_UNDEFINED};
  if (slot->kind != TYPE_TILE || op->operands[0]->kind == EXPR_TRANSPOSED) {
    fault(verifier, op, "operand", "`fill` writes a tile of a channel, such as @ab.a");
    return;
  }
  if (from->kind == TYPE_TENSOR) {
    check_corner(verifier, op, op->operands[1], slot);
    return;
  }
  if (from->kind != TYPE_TILE ||
      (op->operands[1]->kind == EXPR_TRANSPOSED && is_value(op->operands[1]->items[0])) ||
      (op->operands[1]->kind == EXPR_INDEX && is_value(op->operands[1]->items[0]))) {
    fault(verifier, op, "operand",
          "`fill` takes a tensor at a corner, such as A[%%i, 0], a tile %%x or a slot's tile");
    return;
  }
  for (unsigned i = 0; i < G_N_ELEMENTS(of_tensors); i++)
    if (ir_attribute(op, of_tensors[i]))
      fault(verifier, op, "attribute", "`%s` is of fills from a tensor; this one takes a value",
            ir_attribute_name(of_tensors[i]));
  verify_same_tile(verifier, op, slot, from);
}

static void check_memory(Verifier *verifier, const IrOp *op)
{
  IrType other = op->n_operands > 1 ? type_of(verifier, op->operands[op->n_operands - 1]) : (IrType){0};
  IrType first = type_of(verifier, op->operands[0]);
  switch (op->code) {
  case OP_LOAD:
  case OP_GATHER: check_corner(verifier, op, op->operands[0], &op->results[0]->type); break;
  case OP_STORE:
  case OP_SCATTER: check_corner(verifier, op, op->operands[0], &other); break;
  case OP_FILL: check_fill(verifier, op, &first, &other); break;
  case OP_COPY:
  case OP_PUT: verify_same_tile(verifier, op, &first, &other); break;
  case OP_GET: verify_same_tile(verifier, op, &first, &op->results[0]->type); break;
  default: break;
  }
}

static void check_clear(Verifier *verifier, const IrOp *op)
{
  IrType tile = type_of(verifier, op->operands[0]);
  if (tile.kind != TYPE_TILE || tile.rank != 2 || !ir_slot_of(verifier->function, op->operands[0], NULL))
    fault(verifier, op, "operand", "`clear` takes a slot's tile of two dimensions");
}

/* ---- Products and reductions ---- */

/* What the operands' places say must be what the mechanism reads: peers' shared memory where several blocks take the
 * product, each with a part of an operand. */
static void check_places(Verifier *verifier, const IrOp *op, const IrType *acc)
{
  const Mechanism *mechanism = ir_mechanism_of(op);
  unsigned blocks = ir_product_blocks(op);
  int64_t cluster = 1;
  const IrExpr *launch = ir_launch_get(verifier->function, ATTR_CLUSTER);
  if (launch) ir_expr_is_int(launch, &cluster);
  if (mechanism && blocks != mechanism_blocks(mechanism))
    fault(verifier, op, "place", "`via %s` takes a product by %u blocks, not by %u", mechanism->name,
          mechanism_blocks(mechanism), blocks);
  unsigned divided = ir_product_divided(op);
  if (divided && op->operands[divided]->kind == EXPR_VALUE)
    fault(verifier, op, "place",
          "the %s operand of a product of %u blocks lies in registers, which no peer reads",
          divided == 1 ? "first" : "second", blocks);
  if (blocks > 1 && verifier->module->level == IR_STAGED && (cluster < blocks || cluster % blocks))
    fault(verifier, op, "place", "a product of %u blocks reads peers' shared memory, a cluster has %d blocks",
          blocks, (int)cluster);
  if (mechanism && acc->layout && !(mechanism->acc & ir_place_of(acc)))
    fault(verifier, op, "place", "`via %s` does not keep its sum where this one lies", mechanism->name);
}

static void check_mma(Verifier *verifier, const IrOp *op)
{
  IrType acc = type_of(verifier, op->operands[0]), a = type_of(verifier, op->operands[1]),
         b = type_of(verifier, op->operands[2]);
  if (acc.kind != TYPE_TILE || a.kind != TYPE_TILE || b.kind != TYPE_TILE || acc.rank != 2 || a.rank != 2 ||
      b.rank != 2) {
    fault(verifier, op, "shape", "`mma` needs three tiles of two dimensions");
    return;
  }
  const IrExpr *warps = ir_attribute_value(op, ATTR_WARPS);
  if (warps && (warps->kind != EXPR_LIST || warps->n < 1 || warps->n > 3))
    fault(verifier, op, "attribute",
          "attribute `warps` of `mma` takes a list: [number], [m, n] or [m, n, columns of a part]");
  verify_role_threads(verifier, op);
  check_places(verifier, op, &acc);
  IrType rows = a, columns = b;
  int64_t part;
  unsigned divided = ir_product_divided(op), along = divided - 1; /* rows of A, columns of B */
  IrType *parts = divided == 1 ? &rows : &columns;
  if (divided && ir_expr_is_int(parts->dims[along], &part))
    parts->dims[along] = ir_int((IrModule *)verifier->module, part * ir_product_blocks(op));
  bool fits = same_extent(verifier, acc.dims[0], rows.dims[0]) &&
              same_extent(verifier, acc.dims[1], columns.dims[1]) &&
              same_extent(verifier, a.dims[1], b.dims[0]);
  if (fits) return;
  g_autofree char *c = shape_text(verifier, &acc), *x = shape_text(verifier, &a),
                  *y = shape_text(verifier, &b);
  fault(verifier, op, "shape", "shapes do not multiply: %s += %s * %s", c, x, y);
}

/* Does a sub-kernel's value hold elements of a tile? */
static bool holds_element(const IrType *value, const IrType *tile)
{
  if (open_element(value) || open_element(tile)) return true;
  return value->kind == TYPE_SCALAR && same_element(value, tile);
}

/* A sub-kernel that combines n values with n others computes and does nothing else. */
static void check_combiner(Verifier *verifier, const IrOp *op)
{
  const IrExpr *with = ir_attribute_value(op, ATTR_WITH);
  unsigned n = op->n_results;
  if (with->kind != EXPR_SYMBOL) {
    if (n > 1)
      fault(verifier, op, "combiner", "%u tiles are combined by a sub-kernel, such as `with @merge`", n);
    return;
  }
  const IrFunction *combiner = ir_function_find(verifier->module, with->name);
  if (!combiner || combiner->is_kernel) {
    fault(verifier, op, "combiner", "there is no sub-kernel `@%s`", with->name);
    return;
  }
  bool fits = combiner->n_parameters == 2 * n && combiner->n_results == n;
  for (unsigned i = 0; fits && i < 2 * n; i++) {
    IrType tile = op->results[i % n]->type;
    fits = holds_element(&combiner->parameters[i]->type, &tile) &&
           (i >= n || holds_element(&combiner->results[i], &tile));
  }
  if (!fits)
    fault(verifier, op, "combiner", "`@%s` has to take two elements of each of %u tiles and give one of each",
          with->name, n);
  for (const IrOp *step = combiner->body->first; fits && step; step = step->next)
    if (step->code != OP_RETURN && step->code != OP_WHEN && (ir_op_effects(step->code) & ~EFFECT_UPDATE))
      fault(verifier, op, "combiner", "`@%s` combines values, so it cannot `%s`", with->name,
            ir_op_info(step->code)->name);
}

/* What is left of an extent of which every so many elements become one. */
static bool is_every(const Verifier *verifier, const IrExpr *from, const IrExpr *to, const IrOp *op)
{
  int64_t every = ir_attribute_int(op, ATTR_EVERY, 0), extent, row;
  if (ir_attribute_value(op, ATTR_EVERY)->kind != EXPR_INT) return true;
  if (every < 1) return false;
  if (ir_expr_is_int(from, &extent) && ir_expr_is_int(to, &row)) return extent == row * every;
  return verifier->templated || (ir_row_extent(to, from, &row) && row == every);
}

/* The dimension along which it combines, of each operand and result; false: something else is wrong there. */
static bool check_reduced(Verifier *verifier, const IrOp *op, const IrType *from, const IrType *to)
{
  int64_t dim = ir_attribute_int(op, ATTR_DIM, -1);
  if (ir_attribute_value(op, ATTR_DIM)->kind != EXPR_INT) return false;
  if (dim < 0 || dim >= from->rank) {
    fault(verifier, op, "dim", "dimension %" G_GINT64_FORMAT " of a tile of rank %u", dim, from->rank);
    return false;
  }
  bool one = to->dims[dim]->kind == EXPR_INT && to->dims[dim]->integer == 1;
  if (ir_attribute(op, ATTR_EVERY)) {
    if (is_every(verifier, from->dims[dim], to->dims[dim], op)) return true;
    g_autofree char *x = shape_text(verifier, from), *y = shape_text(verifier, to);
    fault(verifier, op, "shape",
          "the shape %s is not %s with every %" G_GINT64_FORMAT " of dimension %" G_GINT64_FORMAT " made one",
          y, x, ir_attribute_int(op, ATTR_EVERY, 0), dim);
    return false;
  }
  if (!one) fault(verifier, op, "shape", "the reduced dimension's extent becomes 1");
  return one;
}

static void check_reduce(Verifier *verifier, const IrOp *op)
{
  bool lifts = ir_reduction_lifts(op);
  int64_t dim = ir_attribute_int(op, ATTR_DIM, -1);
  if ((op->n_results != op->n_operands && !lifts) || !op->n_operands) {
    fault(verifier, op, "result-count", "`reduce` gives one result for each operand");
    return;
  }
  IrType first = type_of(verifier, op->operands[0]);
  for (unsigned i = 0; i < op->n_operands; i++) {
    IrType from = type_of(verifier, op->operands[i]);
    if (from.kind == TYPE_TILE && first.kind == TYPE_TILE && !same_shape(verifier, &first, &from)) {
      fault(verifier, op, "shape", "tiles that are combined together have one shape");
      return;
    }
    if (from.kind != TYPE_TILE) {
      fault(verifier, op, "shape", "`reduce` takes tiles and gives tiles of the same rank");
      return;
    }
  }
  for (unsigned i = 0; i < op->n_results; i++) {
    IrType from = lifts ? first : type_of(verifier, op->operands[i]), to = op->results[i]->type;
    if (to.kind != TYPE_TILE || from.rank != to.rank) {
      fault(verifier, op, "shape", "`reduce` takes tiles and gives tiles of the same rank");
      return;
    }
    if (!check_reduced(verifier, op, &from, &to)) return;
    from.dims[dim] = to.dims[dim];
    if (lifts) from.element = to.element;
    verify_same_tile(verifier, op, &from, &to);
  }
  check_combiner(verifier, op);
}

static void check_scan(Verifier *verifier, const IrOp *op)
{
  IrType from = type_of(verifier, op->operands[0]), all = op->results[1]->type;
  if (op->operands[0]->kind != EXPR_VALUE || from.kind != TYPE_TILE || all.kind != TYPE_TILE ||
      from.rank != all.rank) {
    fault(verifier, op, "shape",
          "`scan` takes a tile and gives one like it and one of what all of a row combine to");
    return;
  }
  verify_same_tile(verifier, op, &from, &op->results[0]->type);
  if (!check_reduced(verifier, op, &from, &all)) return;
  int64_t dim = ir_attribute_int(op, ATTR_DIM, 0);
  from.dims[dim] = all.dims[dim];
  verify_same_tile(verifier, op, &from, &all);
}

/* `spread %x dim 1 every 128`: from what such a reduction gives to what it takes. */
static void check_spread(Verifier *verifier, const IrOp *op)
{
  IrType from = type_of(verifier, op->operands[0]), to = op->results[0]->type;
  int64_t dim = ir_attribute_int(op, ATTR_DIM, -1);
  if (op->operands[0]->kind != EXPR_VALUE || from.kind != TYPE_TILE || to.kind != TYPE_TILE ||
      from.rank != to.rank || dim < 0 || dim >= to.rank) {
    fault(verifier, op, "shape",
          "`spread` takes a tile and gives one of the same rank, along one of its dimensions");
    return;
  }
  if (!check_reduced(verifier, op, &to, &from)) return;
  to.dims[dim] = from.dims[dim];
  verify_same_tile(verifier, op, &from, &to);
}

/* Rows that become one: as many as divide the tile's, and all or none of them may lie outside. */
static void check_store_reduced(Verifier *verifier, const IrOp *op)
{
  IrType tile = type_of(verifier, op->operands[1]);
  int64_t every = ir_attribute_int(op, ATTR_EVERY, 0);
  check_corner(verifier, op, op->operands[0], &tile);
  if (tile.kind != TYPE_TILE || tile.rank != 2)
    fault(verifier, op, "shape", "`store_reduced` takes a tile of two dimensions");
  else if (ir_attribute_value(op, ATTR_EVERY)->kind == EXPR_INT &&
           (every < 1 || ir_tile_extent(&tile, 0) % every))
    fault(verifier, op, "shape",
          "%" G_GINT64_FORMAT " rows become one: not a divisor of the tile's %" G_GINT64_FORMAT, every,
          ir_tile_extent(&tile, 0));
  else if (!ir_attribute(op, ATTR_ROWS) != !ir_attribute(op, ATTR_FILL))
    fault(verifier, op, "attribute", "`rows` and `fill` of `store_reduced` go together");
}

/* A share of what several have of one tile: all rows, some of its columns. */
static void check_combine(Verifier *verifier, const IrOp *op)
{
  IrType tile = type_of(verifier, op->operands[0]);
  const IrType *share = &op->results[0]->type;
  const IrExpr *of = op->operands[0];
  bool one = of->kind == EXPR_INDEX && of->n == 2 && ir_is_several(of->items[0]); /* of several variables */
  if ((of->kind != EXPR_VALUE && !one) || tile.kind != TYPE_TILE || share->kind != TYPE_TILE ||
      tile.rank != 2 || share->rank != 2 || !same_extent(verifier, tile.dims[0], share->dims[0]))
    fault(verifier, op, "shape",
          "`combine` takes a whole tile of registers of two dimensions and gives one of as many rows");
  else
    check_elements(verifier, op, &tile, share);
}

static void check_iota(Verifier *verifier, const IrOp *op)
{
  const IrType *type = &op->results[0]->type;
  int64_t dim = ir_attribute_int(op, ATTR_DIM, 0);
  bool counts = type->element == NUMBER_F32 || number_class(type->element) != NUMBER_FLOAT;
  if (type->kind != TYPE_TILE || (!open_element(type) && !counts))
    fault(verifier, op, "type", "`iota` gives a tile of integers, or of f32");
  else if (dim < 0 || dim >= type->rank)
    fault(verifier, op, "dim", "dimension %" G_GINT64_FORMAT " of a tile of rank %u", dim, type->rank);
  else if (ir_attribute(op, ATTR_SCOPE) && !type->layout)
    fault(verifier, op, "scope", "what threads and registers count of it needs a layout");
}

/* ---- Variables ---- */

static void check_written(Verifier *verifier, const IrOp *op, const IrExpr *target)
{
  if (target->kind == EXPR_LIST) {
    for (unsigned i = 0; i < target->n; i++)
      check_written(verifier, op, target->items[i]);
    return;
  }
  while (target->kind == EXPR_INDEX)
    target = target->items[0];
  if (target->kind == EXPR_VALUE && target->value->variable) return;
  if (target->kind == EXPR_VALUE)
    verify_fault(verifier, &op->mark, "not-a-variable", "declare it with `var`",
                 "`%%%s` is not a variable, so it cannot be written again", target->value->name);
  else
    fault(verifier, op, "not-a-variable", "`%s` writes a variable", ir_op_info(op->code)->name);
}

static void check_set(Verifier *verifier, const IrOp *op)
{
  IrType to = type_of(verifier, op->operands[0]), from = type_of(verifier, op->operands[1]);
  if (from.kind == TYPE_TILE && to.kind == TYPE_TILE)
    verify_same_tile(verifier, op, &to, &from);
  else if (from.kind == TYPE_TILE)
    fault(verifier, op, "shape", "a tile cannot be written to a scalar");
  else if (to.kind == TYPE_SCALAR && from.kind == TYPE_SCALAR)
    check_elements(verifier, op, &from, &to);
}

static void check_var(Verifier *verifier, const IrOp *op)
{
  if (ir_attribute(op, ATTR_KEPT)) verify_kept(verifier, op);
  if (!op->n_operands) return;
  IrType from = type_of(verifier, op->operands[0]);
  const IrType *to = &op->results[0]->type;
  if (from.kind == TYPE_TILE && to->kind != TYPE_TILE)
    fault(verifier, op, "shape", "a scalar variable cannot start as a tile");
  verify_same_tile(verifier, op, to, &from);
}

/* ---- Control ---- */

static bool is_integer(const IrType *type)
{
  if (open_element(type)) return true;
  NumberClass class = number_class(type->element);
  return type->kind == TYPE_SCALAR && type->count == 1 && class != NUMBER_FLOAT;
}

static void check_for(Verifier *verifier, const IrOp *op)
{
  const IrRegion *body = op->regions[0];
  if (body->n_arguments != 1) {
    fault(verifier, op, "argument-count", "`for` has one loop variable");
    return;
  }
  if (!is_integer(&body->arguments[0]->type)) fault(verifier, op, "type", "a loop variable is an integer");
  for (unsigned i = 0; i < op->n_operands; i++) {
    IrType type = type_of(verifier, op->operands[i]);
    if (!is_integer(&type)) fault(verifier, op, "type", "the bounds of a loop are integers");
  }
  int64_t step;
  if (ir_expr_is_int(op->operands[2], &step) && step <= 0)
    fault(verifier, op, "step", "the step of a loop must be positive");
}

static void check_repeat(Verifier *verifier, const IrOp *op)
{
  if (op->regions[0]->n_arguments != 1 || !is_integer(&op->regions[0]->arguments[0]->type))
    fault(verifier, op, "argument-count", "`repeat` has one index, an integer");
  for (unsigned i = 0; i < op->n_operands; i++)
    if (!verify_is_constant_later(verifier, op->operands[i]))
      fault(verifier, op, "repeat", "the bounds of `repeat` are constants, or parameters of the template");
}

static void check_condition(Verifier *verifier, const IrOp *op)
{
  IrType type = type_of(verifier, op->operands[0]);
  if (type.kind == TYPE_TILE)
    verify_fault(verifier, &op->mark, "condition", "choose by element with `select`",
                 "a condition is one truth value, not a tile");
  else if (type.kind != TYPE_NONE && type.kind != TYPE_PREDICATE && !is_integer(&type))
    fault(verifier, op, "condition", "a condition is a truth value");
}

static void check_channel(Verifier *verifier, const IrOp *op)
{
  int64_t slots;
  if (ir_expr_is_int(ir_attribute_value(op, ATTR_SLOTS), &slots) && (slots < 1 || slots > 64))
    fault(verifier, op, "slots", "a channel has 1 to 64 slots, not %" G_GINT64_FORMAT, slots);
  verify_role_threads(verifier, op);
  g_autoptr(GHashTable) names = g_hash_table_new(g_str_hash, g_str_equal);
  for (const IrOp *slot = op->regions[0]->first; slot; slot = slot->next)
    if (slot->code != OP_SLOT)
      fault(verifier, slot, "channel", "a channel holds only `tile` declarations");
    else if (slot->symbol && !g_hash_table_insert(names, (gpointer)slot->symbol, (gpointer)slot))
      fault(verifier, slot, "redefined", "the channel has two tiles `@%s`", slot->symbol);
}

static void check_return(Verifier *verifier, const IrOp *op)
{
  const IrFunction *function = verifier->function;
  const IrOp *outer = op;
  while (!outer->next && outer->parent->owner && outer->parent->owner->code == OP_WHEN)
    outer = outer->parent->owner;
  if (function->is_kernel)
    fault(verifier, op, "return", "a kernel returns nothing");
  else if (outer->parent->owner || outer->next)
    fault(verifier, op, "return", "`return` is a function's last operation");
  else if (op->n_operands != function->n_results)
    fault(verifier, op, "return", "%u results returned, %u declared", op->n_operands, function->n_results);
  for (unsigned i = 0; i < op->n_operands && i < function->n_results; i++) {
    IrType type = type_of(verifier, op->operands[i]);
    verify_same_tile(verifier, op, &function->results[i], &type);
  }
}

static void check_call(Verifier *verifier, const IrOp *op)
{
  const IrFunction *callee =
      op->operands[0]->kind == EXPR_SYMBOL ? ir_function_find(verifier->module, op->operands[0]->name) : NULL;
  if (!callee) return; /* a library's, or a parameter: known when it is inlined */
  if (callee->is_kernel)
    fault(verifier, op, "callee", "`@%s` is a kernel; only sub-kernels can be called", callee->name);
  else if (callee->n_parameters != op->n_operands - 1)
    fault(verifier, op, "argument-count", "`@%s` takes %u argument%s, not %u", callee->name,
          callee->n_parameters, callee->n_parameters == 1 ? "" : "s", op->n_operands - 1);
  else if (op->n_results != callee->n_results)
    fault(verifier, op, "result-count", "`@%s` gives %u, not %u results", callee->name, callee->n_results,
          op->n_results);
}

/* ---- Staged machinery and threads ---- */

static void check_role(Verifier *verifier, const IrOp *op)
{
  int64_t low, high, instances = ir_attribute_int(op, ATTR_INSTANCES, 1);
  const IrExpr *warps = ir_attribute_value(op, ATTR_WARPS);
  if (warps->kind != EXPR_RANGE) {
    fault(verifier, op, "attribute", "attribute `warps` of a role takes a range, such as 0 .. 4");
    return;
  }
  if (!ir_expr_is_int(warps->items[0], &low) || !ir_expr_is_int(warps->items[1], &high)) return;
  if (low < 0 || high <= low || high > 64)
    fault(verifier, op, "warps", "a role has one warp or more: %" G_GINT64_FORMAT " .. %" G_GINT64_FORMAT,
          low, high);
  else if (instances < 1 || (high - low) % instances)
    fault(verifier, op, "instances",
          "%" G_GINT64_FORMAT " warps do not split into %" G_GINT64_FORMAT " instances", high - low,
          instances);
}

static void check_positive(Verifier *verifier, const IrOp *op, IrAttributeKey key)
{
  int64_t value = ir_attribute_int(op, key, 1);
  if (value < 1)
    fault(verifier, op, "count", "`%s` must be positive, not %" G_GINT64_FORMAT, ir_attribute_name(key),
          value);
}

/* `@ab.full[%r]`, `@b[0]`: something to arrive at or wait for. */
static void check_barrier(Verifier *verifier, const IrOp *op)
{
  const IrExpr *base = op->operands[0];
  if (base->kind == EXPR_INDEX) base = base->items[0];
  if (base->kind == EXPR_FIELD && (!strcmp(base->name, "full") || !strcmp(base->name, "empty"))) return;
  const IrOp *declaration =
      base->kind == EXPR_SYMBOL ? g_hash_table_lookup(verifier->symbols, base->name) : NULL;
  if (declaration && declaration->code == OP_BARRIER) return;
  fault(verifier, op, "operand", "`%s` needs an mbarrier, such as @ab.full[%%r]", ir_op_info(op->code)->name);
}

/* `edge [condition, @map]` of a TMA copy. */
static void check_edge(Verifier *verifier, const IrOp *op)
{
  const IrExpr *edge = ir_attribute_value(op, ATTR_EDGE);
  if (!edge) return;
  const IrExpr *name = edge->kind == EXPR_LIST && edge->n == 2 ? edge->items[1] : NULL;
  const IrOp *map =
      name && name->kind == EXPR_SYMBOL ? g_hash_table_lookup(verifier->symbols, name->name) : NULL;
  if (!map || map->code != OP_MAP) fault(verifier, op, "edge", "edge takes a condition and a tensor map");
}

static bool is_channel(const Verifier *verifier, const IrExpr *expr)
{
  const IrOp *op = expr->kind == EXPR_SYMBOL ? g_hash_table_lookup(verifier->symbols, expr->name) : NULL;
  return op && op->code == OP_CHANNEL;
}

static void check_map(Verifier *verifier, const IrOp *op)
{
  IrType tensor = type_of(verifier, op->operands[0]);
  const IrExpr *box = ir_attribute_value(op, ATTR_BOX);
  if (tensor.kind != TYPE_TENSOR)
    fault(verifier, op, "operand", "a tensor map is of a tensor");
  else if (!box->n || box->n > 5)
    fault(verifier, op, "rank", "a tensor map has one to five dimensions");
  else if (!ir_map_is_tiled(op) && tensor.rank < 3)
    fault(verifier, op, "rank",
          "an im2col map is of a tensor with channels, one to three spatial dimensions and batches");
}

static void check_tiles(Verifier *verifier, const IrOp *op)
{
  const IrExpr *name = op->operands[0];
  verify_rows(verifier, op);
  verify_walk(verifier, op);
  if (name->kind != EXPR_SYMBOL && name->kind != EXPR_NAME) return; /* a parameter: known when it is bound */
  const IrFunction *scheduler = ir_function_find(verifier->module, name->name);
  if (scheduler) verify_scheduler(verifier, op, scheduler);
}

/* Elements that only memory has: of 4 bits, and powers of two. */
static bool is_stored_only(const IrType *type)
{
  bool elements = type->kind == TYPE_TILE || type->kind == TYPE_SCALAR;
  return elements && !type->element_parameter &&
         (number_is_packed(type->element) || type->element == NUMBER_E8M0);
}

/* They are loaded, or read from a slot, and cast. */
static void check_stored_only(Verifier *verifier, const IrOp *op)
{
  const bool brings = op->code == OP_FILL || op->code == OP_COPY,
             loads = op->code == OP_LOAD || op->code == OP_GATHER || op->code == OP_GET;
  bool fits = true;
  for (unsigned i = 0; i < op->n_results && !loads; i++)
    fits = fits && !is_stored_only(&op->results[i]->type);
  for (unsigned i = 0; i < op->n_operands && !loads && !brings && op->code != OP_CAST; i++) {
    IrType type = type_of(verifier, op->operands[i]);
    fits = fits && !is_stored_only(&type);
  }
  if (!fits)
    fault(verifier, op, "element-type",
          "`%s` takes and gives no elements that only memory has (s4, u4, e2m1, e8m0): cast them",
          ir_op_info(op->code)->name);
}

static void check_some(Verifier *verifier, const IrOp *op)
{
  IrType operand = type_of(verifier, op->operands[0]);
  if (operand.kind != TYPE_TILE || operand.element != NUMBER_BOOL ||
      op->results[0]->type.kind != TYPE_PREDICATE)
    fault(verifier, op, "element-type", "`some` takes a tile of bool, and gives a predicate");
}

/* Loops, conditions, functions and declarations: what holds other operations, or is named by them. */
static void check_structure(Verifier *verifier, const IrOp *op)
{
  switch (op->code) {
  case OP_FOR: check_for(verifier, op); break;
  case OP_REPEAT: check_repeat(verifier, op); break;
  case OP_TILES: check_tiles(verifier, op); break;
  case OP_BREAK_IF:
    if (!verifier->loops) fault(verifier, op, "break", "`break_if` stands outside any loop");
    check_condition(verifier, op);
    break;
  case OP_IF: check_condition(verifier, op); break;
  case OP_CHANNEL: check_channel(verifier, op); break;
  case OP_SLOT:
    if (!op->parent->owner || op->parent->owner->code != OP_CHANNEL)
      fault(verifier, op, "channel", "`tile` stands in a channel only");
    break;
  case OP_TURN: verify_turn(verifier, op); break;
  case OP_RETURN: check_return(verifier, op); break;
  case OP_CALL: check_call(verifier, op); break;
  case OP_ROLE: check_role(verifier, op); break;
  case OP_BARRIER:
    check_positive(verifier, op, ATTR_ARRIVALS);
    check_positive(verifier, op, ATTR_COUNT);
    break;
  case OP_TAKE:
    verify_not_left(verifier, op, "a slot that is taken, and nobody frees it");
    G_GNUC_FALLTHROUGH;
  case OP_CURSOR:
    if (!is_channel(verifier, op->operands[0]))
      fault(verifier, op, "operand", "`%s` needs a channel, such as @ab", ir_op_info(op->code)->name);
    break;
  case OP_MAP: check_map(verifier, op); break;
  default: break;
  }
}

void verify_op_rules(Verifier *verifier, const IrOp *op)
{
  check_stored_only(verifier, op);
  if (verifier->module->level == IR_THREAD) verify_thread(verifier, op);
  if (ir_op_effects(op->code) & EFFECT_UPDATE) check_written(verifier, op, op->operands[0]);
  if (ir_op_is_elementwise(op->code)) {
    check_elementwise(verifier, op);
    return;
  }
  switch (op->code) {
  case OP_LOAD:
  case OP_STORE:
  case OP_GATHER:
  case OP_SCATTER:
  case OP_FILL:
  case OP_PUT:
  case OP_GET: check_memory(verifier, op); break;
  case OP_COPY:
    check_memory(verifier, op);
    check_edge(verifier, op);
    break;
  case OP_MMA: check_mma(verifier, op); break;
  case OP_CLEAR: check_clear(verifier, op); break;
  case OP_REDUCE: check_reduce(verifier, op); break;
  case OP_SCAN: check_scan(verifier, op); break;
  case OP_SORT: verify_sort(verifier, op); break;
  case OP_PICK: verify_pick(verifier, op); break;
  case OP_COUNT: verify_count(verifier, op); break;
  case OP_SPREAD: check_spread(verifier, op); break;
  case OP_STORE_REDUCED: check_store_reduced(verifier, op); break;
  case OP_COMBINE: check_combine(verifier, op); break;
  case OP_IOTA: check_iota(verifier, op); break;
  case OP_SOME: check_some(verifier, op); break;
  case OP_SCAN_LANES:
  case OP_COUNT_LANES:
  case OP_OF_LANE: verify_lanes(verifier, op); break;
  case OP_SET: check_set(verifier, op); break;
  case OP_VAR: check_var(verifier, op); break;
  case OP_AWAIT:
  case OP_ARRIVE:
  case OP_EXPECT: check_barrier(verifier, op); break;
  case OP_CONVERT: {
    IrType from = type_of(verifier, op->operands[0]);
    verify_same_tile(verifier, op, &from, &op->results[0]->type);
    break;
  }
  default: check_structure(verifier, op);
  }
}
