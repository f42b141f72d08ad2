/* pace_results: few results are computed at a time, beside another warpgroup's products or in front of an exchange.
 *
 * needs  THREAD, what is computed for a result in one piece (shorten_live_ranges)
 * gives  where the launch has `pace` n, a `fence schedule` behind every n results of a region behind one
 * breaks nothing
 *
 * Warps that issue an f32 operation every clock keep the tensor cores waiting, 0.7 to 1.4 clocks for each.
 * With at most three chains of dependent operations there is a clock between two of them, and they cost
 * nothing (docs/performance-log.md). The assembler interleaves whatever is independent; over a fence it moves
 * nothing. Where many chains end in an exchange between lanes (widen_accesses), the assembler would interleave them
 * until no register is left. */
#include "ir/pass.h"

typedef struct {
  GHashTable *needed; /* IrValue* that a pure operation reads, but for conversions to pairs */
  int64_t pace;
} Pace;

static void note_value(const IrExpr *expr, void *data)
{
  if (expr->kind == EXPR_VALUE) g_hash_table_add(data, expr->value);
}

static bool is_pure(const IrOp *op)
{
  return op->n_results && !op->n_regions && op->code != OP_VAR && !ir_op_effects(op->code);
}

static void note_needs(IrOp *op, void *data)
{
  if (!is_pure(op) || op->code == OP_CAST_PAIR) return;
  for (unsigned i = 0; i < op->n_operands; i++)
    ir_expr_visit(op->operands[i], note_value, data);
}

/* A float that only stores read, or conversions to pairs that are stored. */
static bool is_result(const Pace *pace, const IrOp *op)
{
  if (!is_pure(op) || op->n_results != 1 || op->code == OP_LOAD_GLOBAL || op->code == OP_LOAD_SHARED)
    return false;
  const IrValue *value = op->results[0];
  return !g_hash_table_contains(pace->needed, value) && value->type.kind == TYPE_SCALAR &&
         number_class(value->type.element) == NUMBER_FLOAT;
}

static void pace_behind(const Pace *pace, IrModule *module, const IrOp *fence)
{
  int64_t results = 0;
  for (IrOp *op = fence->next; op; op = op->next) {
    if (!is_result(pace, op) || ++results < pace->pace || !op->next) continue;
    IrBuilder builder = ir_builder_after(op);
    builder.mark = op->mark;
    op = ir_emit(&builder, OP_FENCE, 1, ir_name(module, "schedule"));
    results = 0;
  }
}

static void collect_fences(IrOp *op, void *data)
{
  bool schedule = op->code == OP_FENCE && op->operands[0]->kind == EXPR_NAME &&
                  g_str_equal(op->operands[0]->name, "schedule");
  if (schedule) g_ptr_array_add(data, op);
}

bool pass_pace_results(IrModule *module, const IrPassContext *context, GError **error)
{
  IrFunction *kernel = ir_kernel(module);
  g_autoptr(GHashTable) needed = g_hash_table_new(NULL, NULL);
  g_autoptr(GPtrArray) fences = g_ptr_array_new();
  Pace pace = {.needed = needed};
  IrExpr *launch = kernel ? ir_launch_get(kernel, ATTR_PACE) : NULL;
  if (!launch || !ir_expr_is_int(launch, &pace.pace) || pace.pace < 1) return true;
  ir_region_visit(kernel->body, note_needs, needed);
  ir_region_visit(kernel->body, collect_fences, fences);
  for (unsigned i = 0; i < fences->len; i++)
    pace_behind(&pace, module, fences->pdata[i]);
  return true;
}
