/* lower: from tiles, layouts and mechanisms to one thread's registers and instructions.
 *
 * needs  STAGED, verified: every tile with a layout, every shared tile and barrier with its place
 * gives  THREAD: roles as branches on the warp's index, tiles as registers, accesses as addresses,
 *        cursors as variables
 * breaks nothing; what it computes twice or never uses is left to the THREAD passes
 *
 * The work is in ir/lower/, a file a topic; this file sets up the kernel's common values and walks the
 * regions. */
#include "ir/lower/lower.h"

static void lower_variable_op(Lower *lower, IrOp *op)
{
  IrValue *result = op->results[0];
  if (result->type.kind == TYPE_TILE) {
    lower_tile_var(lower, op);
    return;
  }
  IrType type = result->type;
  NumberType element = type.kind == TYPE_PREDICATE ? NUMBER_BOOL : type.element;
  if (element == NUMBER_BOOL) type = ir_predicate();
  IrExpr *initial = NULL;
  if (op->n_operands) initial = lower_as(lower, lower_expr(lower, op->operands[0]), element);
  IrValue *variable = lower_variable(lower, result->name, type, initial);
  g_hash_table_insert(lower->scalars, result, ir_value(lower->module, variable));
}

static void lower_set_op(Lower *lower, IrOp *op)
{
  const IrExpr *target = op->operands[0];
  if (target->kind == EXPR_VALUE && target->value->type.kind == TYPE_TILE) {
    lower_tile_set(lower, op);
    return;
  }
  LowerScalar variable = lower_expr(lower, target);
  if (lower->failed) return;
  IrExpr *value = lower_as(lower, lower_expr(lower, op->operands[1]), variable.type);
  lower_set(lower, variable.x, value);
}

static void lower_let(Lower *lower, IrOp *op)
{
  IrValue *result = op->results[0];
  NumberType type = result->type.kind == TYPE_PREDICATE ? NUMBER_BOOL : result->type.element;
  lower_scalar_bind(lower, result, lower_as(lower, lower_expr(lower, op->operands[0]), type));
}

/* Ops that mean the same for one thread; expressions in their attributes become registers. */
static void pass_through(Lower *lower, IrOp *op)
{
  IrExpr *values[IR_ATTRIBUTE_COUNT] = {NULL};
  for (unsigned i = 0; i < op->n_attributes; i++) {
    values[i] = op->attributes[i].value;
    if (values[i] && values[i]->kind != EXPR_NAME && values[i]->kind != EXPR_INT)
      values[i] = lower_s32(lower, values[i]);
  }
  IrOp *copy = lower_emit_array(lower, op->code, op->n_operands, op->operands);
  for (unsigned i = 0; i < op->n_attributes; i++)
    if (op->attributes[i].key != ATTR_BY) ir_attribute_set(copy, op->attributes[i].key, values[i]);
}

static void lower_map_declaration(Lower *lower, IrOp *op)
{
  IrOp *copy = lower_emit_array(lower, OP_MAP, op->n_operands, op->operands);
  copy->symbol = op->symbol;
  for (unsigned i = 0; i < op->n_attributes; i++)
    ir_attribute_set(copy, op->attributes[i].key, op->attributes[i].value);
}

/* What hands slots, groups and sections from one thread to another. */
static void lower_handing(Lower *lower, IrOp *op)
{
  switch (op->code) {
  case OP_CURSOR: lower_cursor(lower, op); break;
  case OP_ADVANCE: lower_advance(lower, op); break;
  case OP_SKIP: lower_skip(lower, op); break;
  case OP_INIT_BARRIERS: lower_init_barriers(lower, op); break;
  case OP_AWAIT: lower_await(lower, op); break;
  case OP_ARRIVE: lower_arrive(lower, op); break;
  case OP_EXPECT: lower_expect(lower, op); break;
  case OP_TURN_WAIT:
  case OP_TURN_PASS: lower_turn(lower, op); break;
  case OP_COMMIT:
  case OP_WAIT_GROUP:
  case OP_FENCE:
  case OP_SYNC_WARP:
  case OP_SYNC:
  case OP_SYNC_ARRIVE:
  case OP_CLUSTER_ARRIVE:
  case OP_CLUSTER_WAIT:
  case OP_PREFETCH_MAP:
  case OP_DEPENDENT_WAIT:
  case OP_DEPENDENT_LAUNCH: pass_through(lower, op); break;
  default:
    lower_fail(lower, ERROR_UNSUPPORTED, "lower", NULL, "no lowering for %s", ir_op_info(op->code)->name);
  }
}

static void lower_op(Lower *lower, IrOp *op)
{
  if (lower_is_elementwise(op->code)) {
    lower_elementwise(lower, op);
    return;
  }
  switch (op->code) {
  case OP_CHANNEL: /* declarations are read where they are used */
  case OP_SHARED:
  case OP_BARRIER:
  case OP_TURN: break;
  case OP_MAP: lower_map_declaration(lower, op); break;
  case OP_VAR: lower_variable_op(lower, op); break;
  case OP_SET: lower_set_op(lower, op); break;
  case OP_LET: lower_let(lower, op); break;
  case OP_FOR: lower_for(lower, op); break;
  case OP_LOOP: lower_loop(lower, op); break;
  case OP_IF: lower_if(lower, op); break;
  case OP_BREAK_IF: lower_emit(lower, OP_BREAK_IF, 1, lower_condition(lower, op->operands[0])); break;
  case OP_CAST:
  case OP_BITCAST: lower_cast(lower, op); break;
  case OP_SPLAT: lower_splat(lower, op); break;
  case OP_IOTA: lower_iota(lower, op); break;
  case OP_LOAD: lower_load(lower, op); break;
  case OP_STORE: lower_store(lower, op); break;
  case OP_STORE_REDUCED: lower_store_reduced(lower, op); break;
  case OP_GATHER: lower_gather(lower, op); break;
  case OP_SCATTER: lower_scatter(lower, op); break;
  case OP_MMA: lower_mma(lower, op); break;
  case OP_CLEAR: lower_clear_rows(lower, op); break;
  case OP_REDUCE: lower_reduce(lower, op); break;
  case OP_SCAN: lower_scan(lower, op); break;
  case OP_SORT: lower_sort(lower, op); break;
  case OP_PICK: lower_pick(lower, op); break;
  case OP_COUNT: lower_count(lower, op); break;
  case OP_SPREAD: lower_spread_every(lower, op); break;
  case OP_SOME: lower_some(lower, op); break;
  case OP_SCAN_LANES:
  case OP_COUNT_LANES:
  case OP_OF_LANE: lower_lanes(lower, op); break;
  case OP_COPY: lower_copy(lower, op); break;
  case OP_CONVERT: lower_convert(lower, op); break;
  case OP_PUT: lower_put(lower, op); break;
  case OP_GET: lower_get(lower, op); break;
  case OP_STORE_PARTIAL: lower_store_partial(lower, op); break;
  case OP_ADD_PARTIAL: lower_add_partial(lower, op); break;
  case OP_CLAIM: lower_claim(lower, op); break;
  case OP_POST: lower_post(lower, op); break;
  case OP_POST_STEP: lower_post_step(lower, op); break;
  case OP_AWAIT_STEP: lower_await_step(lower, op); break;
  case OP_AWAIT_POSTS: lower_await_posts(lower, op); break;
  default: lower_handing(lower, op);
  }
}

void lower_region(Lower *lower, const IrRegion *region)
{
  for (const IrOp *op = region->first; op && !lower->failed; op = op->next) {
    lower->mark = op->mark;
    if (op->code == OP_ROLE)
      op = lower_roles(lower, op);
    else
      lower_op(lower, (IrOp *)op);
  }
}

static bool block_warps(Lower *lower)
{
  int64_t threads = 0;
  const IrExpr *launch = ir_launch_get(lower->kernel, ATTR_THREADS);
  lower->mark = lower->kernel->mark;
  if (!launch || !ir_expr_is_int(launch, &threads) || threads <= 0 || threads % WARP_LANES) {
    lower_fail(lower, ERROR_INPUT, "launch-threads", NULL,
               "kernel '%s' needs `launch threads`, a multiple of 32", lower->kernel->name);
    return false;
  }
  lower->block_warps = (unsigned)threads / WARP_LANES;
  return true;
}

static void bind_parameters(Lower *lower)
{
  for (unsigned i = 0; i < lower->kernel->n_parameters; i++) {
    IrValue *parameter = lower->kernel->parameters[i];
    parameter->id = 1;
    if (parameter->type.kind == TYPE_SCALAR)
      g_hash_table_insert(lower->scalars, parameter, ir_value(lower->module, parameter));
  }
}

/* What decides how fragments are addressed. */
static void find_fragments(IrOp *op, void *data)
{
  Lower *lower = data;
  const IrType *type = op->code == OP_VAR && op->n_results ? &op->results[0]->type : NULL;
  if (type && type->kind == TYPE_TILE && type->layout)
    lower->sums = MAX(lower->sums, layout_registers(type->layout));
  if (op->code == OP_SLOT && op->declared && op->declared->layout && !op->declared->layout->swizzle_bits)
    lower->plain = true;
}

static void lower_kernel(Lower *lower)
{
  IrRegion *body = arena_new_object(lower->arena, IrRegion);
  body->function = lower->kernel;
  if (!block_warps(lower)) return;
  bind_parameters(lower);
  ir_region_visit(lower->kernel->body, find_fragments, lower);
  lower_scope_open(lower, NULL, body, false);
  lower_place_thread(lower);
  LowerRole whole;
  lower_enter_role(lower, &whole, 0, lower->block_warps, 1);
  lower_region(lower, lower->kernel->body);
  lower_scope_close(lower);
  if (!lower->failed) lower->kernel->body = body;
}

/* Combining sub-kernels have been written out at each use. */
static void forget_functions(IrModule *module)
{
  unsigned kept = 0;
  for (unsigned i = 0; i < module->n_functions; i++)
    if (module->functions[i]->is_kernel) module->functions[kept++] = module->functions[i];
  module->n_functions = kept;
}

bool pass_lower(IrModule *module, const IrPassContext *context, GError **error)
{
  g_autoptr(GHashTable) tiles = g_hash_table_new(NULL, NULL);
  g_autoptr(GHashTable) fenced = g_hash_table_new(NULL, NULL);
  g_autoptr(GHashTable) scalars = g_hash_table_new(NULL, NULL);
  g_autoptr(GHashTable) cursors = g_hash_table_new(NULL, NULL);
  g_autoptr(GHashTable) variables = g_hash_table_new(NULL, NULL);
  g_autoptr(GHashTable) registers = g_hash_table_new(NULL, NULL);
  Lower lower = {.module = module,
                 .arena = module->arena,
                 .kernel = ir_kernel(module),
                 .context = context,
                 .error = error,
                 .tiles = tiles,
                 .fenced = fenced,
                 .scalars = scalars,
                 .cursors = cursors,
                 .variables = variables,
                 .registers = registers};
  if (!lower.kernel) return true;
  ir_region_visit(lower.kernel->body, lower_find_fenced, fenced);
  lower_kernel(&lower);
  if (lower.failed) return false;
  forget_functions(module);
  module->level = IR_THREAD;
  return true;
}
