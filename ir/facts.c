#include "ir/facts.h"
#include "ir/mechanism.h"
#include <string.h>

static unsigned lowest_bit(uint64_t value, unsigned limit)
{
  if (!value) return limit;
  uint64_t bit = value & -value;
  return bit > limit ? limit : (unsigned)bit;
}

/* What a variable is taken to be a multiple of while what is written to it is looked at. */
typedef struct Assumed {
  const struct Assumed *outer;
  const IrValue *variable;
  unsigned multiple;
} Assumed;

/* Where an expression stands. */
typedef struct Place {
  const IrFunction *function;
  bool walks;             /* what a walk's sub-kernel gives is looked into */
  const IrOp *walk;       /* the function is this walk's sub-kernel; NULL: it is a kernel */
  const IrFunction *from; /* where the walk is */
  const Assumed *assumed;
} Place;

static unsigned multiple_of(const Place *place, const IrExpr *expr, unsigned limit);

/* Writes to a variable. */
typedef struct Writes {
  const Place *place;
  const IrValue *variable;
  unsigned multiple;
} Writes;

static void visit_write(IrOp *op, void *data)
{
  Writes *writes = data;
  if (op->code == OP_SET && op->operands[0]->value == writes->variable)
    writes->multiple = MIN(writes->multiple, multiple_of(writes->place, op->operands[1], writes->multiple));
}

/* Of a sub-kernel's variable: whatever it begins with and is set to, if it is one so far. */
static unsigned variable_multiple(const Place *place, const IrValue *variable, unsigned limit)
{
  for (const Assumed *known = place->assumed; known; known = known->outer)
    if (known->variable == variable) return MIN(known->multiple, limit);
  if (!variable->def || variable->def->code != OP_VAR || !variable->def->n_operands) return 1;
  Assumed assumed = {place->assumed, variable, limit};
  Place inside = *place;
  inside.assumed = &assumed;
  for (;;) {
    Writes writes = {&inside, variable, multiple_of(&inside, variable->def->operands[0], assumed.multiple)};
    ir_region_visit(place->function->body, visit_write, &writes);
    if (writes.multiple == assumed.multiple) return assumed.multiple;
    assumed.multiple = writes.multiple;
  }
}

/* Of a sub-kernel's parameter: what the walk hands to it, whose index comes first. */
static unsigned parameter_multiple(const Place *place, const IrValue *value, unsigned limit)
{
  const Place outside = {.function = place->from, .walks = true};
  for (unsigned i = 1; i < place->function->n_parameters && i < place->walk->n_operands; i++)
    if (place->function->parameters[i] == value)
      return multiple_of(&outside, place->walk->operands[i], limit);
  return 1;
}

/* Of a coordinate of a walk whose sub-kernel gives it. */
static unsigned coordinate_multiple(const Place *place, const IrOp *walk, const IrValue *value,
                                    unsigned limit)
{
  const IrRegion *body = walk->regions[0];
  const IrFunction *kernel = place->function;
  const IrFunction *scheduler = walk->n_operands && walk->operands[0]->kind == EXPR_SYMBOL
                                    ? ir_function_find(kernel->module, walk->operands[0]->name)
                                    : NULL;
  const IrOp *end = scheduler ? scheduler->body->last : NULL;
  const Place inside = {.function = scheduler, .walks = true, .walk = walk, .from = kernel};
  for (unsigned i = 0; end && end->code == OP_RETURN && i < body->n_arguments && i + 1 < end->n_operands; i++)
    if (body->arguments[i] == value) return multiple_of(&inside, end->operands[i + 1], limit);
  return 1;
}

/* Facts of a value: what defines it, as far as integer expressions go. */
static unsigned value_multiple(const Place *place, const IrValue *value, unsigned limit)
{
  if (value->def && value->def->code == OP_LET && !value->variable)
    return multiple_of(place, value->def->operands[0], limit);
  if (value->argument_of && value->argument_of->owner && value->argument_of->owner->code == OP_FOR) {
    const IrOp *loop = value->argument_of->owner; /* low + i * step */
    unsigned low = multiple_of(place, loop->operands[0], limit);
    return loop->n_operands > 2 ? multiple_of(place, loop->operands[2], low) : MIN(low, 1);
  }
  const IrOp *owner = value->argument_of ? value->argument_of->owner : NULL;
  if (place->walks && owner && owner->code == OP_TILES)
    return coordinate_multiple(place, owner, value, limit);
  if (!place->walk) return 1;
  return value->variable ? variable_multiple(place, value, limit) : parameter_multiple(place, value, limit);
}

/* A multiple of a power of two times more is divided by it without rest. Products of two such limits stay in 32 bits. */
static unsigned quotient_multiple(const Place *place, const IrExpr *expr, unsigned limit)
{
  int64_t by;
  bool power =
      ir_expr_is_int(expr->items[1], &by) && by > 0 && !(by & (by - 1)) && by <= UINT16_MAX / MAX(1, limit);
  if (!power) return 1;
  return MAX(1, multiple_of(place, expr->items[0], limit * (unsigned)by) / (unsigned)by);
}

static unsigned multiple_of(const Place *place, const IrExpr *expr, unsigned limit)
{
  switch (expr->kind) {
  case EXPR_INT: return lowest_bit((uint64_t)expr->integer, limit);
  case EXPR_DIM: {
    const IrDim *dim = ir_dim_find(place->function, expr->name);
    if (dim && dim->multiple > 1) return lowest_bit((uint64_t)dim->multiple, limit);
    return 1;
  }
  case EXPR_VALUE: return value_multiple(place, expr->value, limit);
  case EXPR_BINARY: {
    if (expr->operator_ == OPERATOR_DIV) return quotient_multiple(place, expr, limit);
    unsigned a = multiple_of(place, expr->items[0], limit);
    unsigned b = multiple_of(place, expr->items[1], limit);
    if (expr->operator_ == OPERATOR_MUL) return MIN(limit, a * b);
    bool keeps =
        expr->operator_ == OPERATOR_ADD || expr->operator_ == OPERATOR_SUB || expr->operator_ == OPERATOR_MOD;
    return keeps ? MIN(a, b) : 1;
  }
  case EXPR_CALL:
    if (expr->n == 2 && (g_str_equal(expr->name, "min") || g_str_equal(expr->name, "max")))
      return MIN(multiple_of(place, expr->items[0], limit), multiple_of(place, expr->items[1], limit));
    return 1;
  case EXPR_SELECT:
    if (!place->walks) return 1;
    return MIN(multiple_of(place, expr->items[1], limit), multiple_of(place, expr->items[2], limit));
  default: return 1;
  }
}

unsigned ir_known_multiple(const IrFunction *function, const IrExpr *expr, unsigned limit)
{
  return multiple_of(&(Place){.function = function}, expr, limit);
}

unsigned ir_walked_multiple(const IrFunction *function, const IrExpr *expr, unsigned limit)
{
  return multiple_of(&(Place){.function = function, .walks = true}, expr, limit);
}

static int64_t saturating_mul(int64_t a, int64_t b)
{
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

static int64_t saturating_add(int64_t a, int64_t b)
{
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

int64_t ir_known_maximum(const IrFunction *function, const IrExpr *expr)
{
  switch (expr->kind) {
  case EXPR_INT: return expr->integer;
  case EXPR_DIM: {
    const IrDim *dim = ir_dim_find(function, expr->name);
    return dim && dim->maximum > 0 ? dim->maximum : INT64_MAX;
  }
  case EXPR_BINARY: {
    int64_t a = ir_known_maximum(function, expr->items[0]), b = ir_known_maximum(function, expr->items[1]);
    int64_t divisor;
    switch (expr->operator_) {
    case OPERATOR_MUL: return saturating_mul(a, b);
    case OPERATOR_ADD: return saturating_add(a, b);
    case OPERATOR_SUB: return a;
    case OPERATOR_DIV: return ir_expr_is_int(expr->items[1], &divisor) && divisor > 0 ? a / divisor : a;
    case OPERATOR_MOD: return ir_expr_is_int(expr->items[1], &divisor) && divisor > 0 ? divisor - 1 : b;
    default: return INT64_MAX;
    }
  }
  case EXPR_CALL:
    if (expr->n == 2 && g_str_equal(expr->name, "min"))
      return MIN(ir_known_maximum(function, expr->items[0]), ir_known_maximum(function, expr->items[1]));
    if (expr->n == 2 && g_str_equal(expr->name, "ceil_div"))
      return ir_known_maximum(function, expr->items[0]);
    return INT64_MAX;
  default: return INT64_MAX;
  }
}

static bool argument_is_non_negative(const IrValue *value)
{
  const IrOp *owner = value->argument_of ? value->argument_of->owner : NULL;
  return owner && owner->code == OP_FOR && ir_is_non_negative(owner->operands[0]);
}

bool ir_is_non_negative(const IrExpr *expr)
{
  switch (expr->kind) {
  case EXPR_INT: return expr->integer >= 0;
  case EXPR_DIM: return true;
  case EXPR_CALL:
    if (!strcmp(expr->name, "max"))
      return ir_is_non_negative(expr->items[0]) || ir_is_non_negative(expr->items[1]);
    if (strcmp(expr->name, "min") && strcmp(expr->name, "ceil_div")) return true;
    G_GNUC_FALLTHROUGH;
  case EXPR_BINARY:
    if (expr->kind == EXPR_BINARY && expr->operator_ == OPERATOR_SUB) return false;
    for (unsigned i = 0; i < expr->n; i++)
      if (!ir_is_non_negative(expr->items[i])) return false;
    return true;
  case EXPR_SELECT: return ir_is_non_negative(expr->items[1]) && ir_is_non_negative(expr->items[2]);
  case EXPR_FIELD: return true; /* slot, phase */
  case EXPR_VALUE: {
    const IrValue *value = expr->value;
    if (value->variable) return false;
    if (value->def) return value->def->code == OP_LET && ir_is_non_negative(value->def->operands[0]);
    return argument_is_non_negative(value);
  }
  default: return false;
  }
}

int ir_contiguous_dim(const IrType *tensor)
{
  int64_t stride;
  for (int d = (int)tensor->rank - 1; d >= 0; d--) {
    if (!tensor->strides[d]) return (int)tensor->rank - 1; /* row-major by default */
    if (ir_expr_is_int(tensor->strides[d], &stride) && stride == 1) return d;
  }
  return -1;
}

/* Multiple known of the stride of dimension d, in elements. */
static unsigned stride_multiple(const IrFunction *function, const IrType *tensor, unsigned d, unsigned limit)
{
  if (tensor->strides[d]) return ir_known_multiple(function, tensor->strides[d], limit);
  unsigned multiple = 1;
  for (unsigned e = d + 1; e < tensor->rank; e++)
    multiple = MIN(limit, multiple * ir_known_multiple(function, tensor->dims[e], limit));
  return multiple;
}

unsigned ir_access_vector(const IrFunction *function, const IrType *tensor, IrExpr *const *corner,
                          unsigned step)
{
  int inner = ir_contiguous_dim(tensor);
  if (inner < 0) return 1;
  unsigned vector = tensor->align ? MAX(1, number_elements(tensor->element, MIN(16u, tensor->align))) : 1;
  vector = MIN(vector, MAX(1, lowest_bit(step, 32)));
  for (unsigned d = 0; d < tensor->rank; d++) {
    /* a dimension of one element is stepped, too, where a tile reaches beyond it: copies of no bytes want their address aligned */
    if ((int)d == inner) {
      vector = MIN(vector, ir_known_multiple(function, corner[d], vector));
      vector = MIN(vector, ir_known_multiple(function, tensor->dims[d], vector));
    } else {
      vector = MIN(vector, stride_multiple(function, tensor, d, vector));
    }
  }
  return MAX(1, vector);
}

bool ir_tensor_map_possible(const IrFunction *function, const IrType *tensor, const Mechanism *engine)
{
  int inner = ir_contiguous_dim(tensor);
  if (inner < 0 || tensor->rank < 1 || tensor->rank > MIN(TENSOR_MAP_RANK, engine->rank_max)) return false;
  if (tensor->align < engine->address_multiple) return false;
  int64_t extent;
  for (unsigned d = 0; d < tensor->rank; d++) {
    if ((int)d == inner) continue;
    if (ir_expr_is_int(tensor->dims[d], &extent) && extent == 1)
      continue; /* the launcher writes any legal stride */
    unsigned limit = number_elements(tensor->element, engine->stride_multiple),
             multiple = stride_multiple(function, tensor, d, MAX(1, limit));
    if (number_bytes_of(tensor->element, multiple) < engine->stride_multiple) return false;
  }
  return true;
}

const IrExpr *ir_untransposed(const IrExpr *expr)
{
  while (expr->kind == EXPR_TRANSPOSED)
    expr = expr->items[0];
  return expr;
}

const IrExpr *ir_access_base(const IrExpr *access)
{
  while (access->kind == EXPR_INDEX || access->kind == EXPR_FIELD || access->kind == EXPR_TRANSPOSED)
    access = access->items[0];
  return access;
}

IrOp *ir_slot_of(const IrFunction *function, const IrExpr *access, IrOp **channel)
{
  while (access->kind == EXPR_INDEX || access->kind == EXPR_TRANSPOSED)
    access = access->items[0];
  if (access->kind != EXPR_FIELD || access->items[0]->kind != EXPR_SYMBOL) return NULL;
  IrOp *op = ir_symbol_find(function, access->items[0]->name);
  if (!op || op->code != OP_CHANNEL) return NULL;
  if (channel) *channel = op;
  for (IrOp *slot = op->regions[0]->first; slot; slot = slot->next)
    if (slot->symbol && g_str_equal(slot->symbol, access->name)) return slot;
  return NULL;
}

IrExpr *ir_slot_cursor(const IrExpr *access)
{
  while (access->kind == EXPR_INDEX && access->items[0]->kind == EXPR_INDEX)
    access = access->items[0];
  if (access->kind != EXPR_INDEX || access->items[0]->kind != EXPR_FIELD) return NULL;
  IrExpr *cursor = access->items[1];
  return cursor->kind == EXPR_VALUE && cursor->value->type.kind == TYPE_CURSOR ? cursor : NULL;
}

bool ir_steps_cursor(const IrOp *op, const IrValue *cursor)
{
  return op->code == OP_ADVANCE && op->operands[0]->value == cursor;
}

unsigned ir_count_steps(const IrRegion *region, const IrValue *cursor)
{
  unsigned steps = 0;
  for (const IrOp *op = region->first; op; op = op->next)
    steps += ir_steps_cursor(op, cursor);
  return steps;
}

bool ir_passes_registers(const IrFunction *function, const IrOp *mma)
{
  const IrExpr *a = mma->operands[1];
  const IrOp *slot = ir_slot_of(function, a, NULL);
  if (!slot || !slot->declared || !slot->declared->layout || a->kind == EXPR_TRANSPOSED ||
      !ir_is_grouped_product(mma))
    return false;
  const Layout *layout = slot->declared->layout;
  return layout->n && layout->modes[0].dim == 0 && !number_has_bytes(slot->declared->element, 2);
}

unsigned ir_computed_inner(const IrFunction *function, const IrOp *mma, unsigned operand,
                           const Mechanism *product)
{
  IrType a = ir_expr_type(function, mma->operands[1]), b = ir_expr_type(function, mma->operands[2]);
  const GpuProduct *shape =
      product ? mechanism_product(product, a.element, b.element, mma->operands[0]->value->type.element)
              : NULL;
  bool turned = mma->operands[operand]->kind == EXPR_TRANSPOSED;
  unsigned k = (operand == 1) != turned; /* k is the second dimension of A, the first of B */
  bool either = shape && (operand == 1 ? shape->a_transposed : shape->b_transposed);
  if (shape && !(product->b & IN_SHARED))
    either = number_bits(operand == 1 ? a.element : b.element) == 16; /* matrices */
  return either ? 1 : k;
}

int64_t ir_trip_count(const IrOp *loop)
{
  int64_t low, high, step = 1;
  if (!ir_expr_is_int(loop->operands[0], &low) || !ir_expr_is_int(loop->operands[1], &high)) return 0;
  if (loop->n_operands > 2 && !ir_expr_is_int(loop->operands[2], &step)) return 0;
  return step > 0 && high > low ? (high - low + step - 1) / step : 0;
}

unsigned ir_role_warps(const IrOp *role)
{
  const IrExpr *range = ir_attribute_value(role, ATTR_WARPS);
  int64_t first, last;
  bool known = range && range->n == 2 && ir_expr_is_int(range->items[0], &first) &&
               ir_expr_is_int(range->items[1], &last);
  return known ? (unsigned)(last - first) : 0;
}

unsigned ir_launch_threads(const IrFunction *kernel)
{
  int64_t threads = WARPGROUP_WARPS * WARP_LANES;
  const IrExpr *launch = ir_launch_get(kernel, ATTR_THREADS);
  if (launch) ir_expr_is_int(launch, &threads);
  return (unsigned)threads;
}

int64_t ir_slot_bytes(const IrOp *channel)
{
  uint64_t bytes = 0;
  for (const IrOp *slot = channel->regions[0]->first; slot; slot = slot->next)
    bytes += number_bytes_of(slot->declared->element, (uint64_t)ir_tile_elements(slot->declared));
  return (int64_t)bytes;
}

bool ir_map_is_tiled(const IrOp *map)
{
  return !ir_attribute(map, ATTR_MODE) || ir_attribute_is(map, ATTR_MODE, "tiled");
}

bool ir_row_extent(const IrExpr *extent, const IrExpr *row, int64_t *every)
{
  int64_t parts = 1;
  bool divided = extent->kind == EXPR_BINARY && extent->operator_ == OPERATOR_DIV;
  bool rounded = extent->kind == EXPR_CALL && extent->n == 2 && !strcmp(extent->name, "ceil_div");
  if ((divided || rounded) && ir_expr_is_int(extent->items[1], &parts) && parts > 0)
    extent = extent->items[0];
  if (!ir_expr_equal(extent, row)) return false;
  if (every) *every = parts;
  return true;
}

typedef struct {
  bool (*is)(const IrExpr *, const void *);
  const void *data;
  GHashTable *seen; /* values */
  bool found;
} Origin;

static void find_origin(const IrExpr *leaf, void *data)
{
  Origin *origin = data;
  origin->found = origin->found || origin->is(leaf, origin->data);
  if (origin->found || leaf->kind != EXPR_VALUE || !g_hash_table_add(origin->seen, leaf->value)) return;
  const IrValue *value = leaf->value;
  const IrOp *op = value->def ? value->def : value->argument_of ? value->argument_of->owner : NULL;
  for (unsigned i = 0; op && i < op->n_operands && !origin->found; i++)
    ir_expr_visit(op->operands[i], find_origin, origin);
}

bool ir_follows(const IrExpr *expr, bool (*is)(const IrExpr *leaf, const void *data), const void *data)
{
  g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);
  Origin origin = {is, data, seen, false};
  ir_expr_visit(expr, find_origin, &origin);
  return origin.found;
}

unsigned ir_tile_registers(const IrType *type, int64_t vector)
{
  unsigned elements = layout_registers(type->layout), bits = number_bits(type->element);
  return vector * bits >= 32 ? elements * bits / 32 : elements;
}
