/* load_operands: an operand that a warpgroup MMA cannot read where it lies passes through registers.
 *
 * needs  STAGED with instances split; a slot of A that lies across k although its elements are not of 16 bits
 * gives  for each step of k a `get` of A's rows in the product's register layout and a product of what it
 *        got; products that read both operands from shared memory stay as they are. Instances are known here:
 *        sections that they take in turn get their barriers, the others are opened (turns.c)
 * breaks nothing
 *
 * On the way an element of 8 or 32 bits changes places: bytes by matrix loads that transpose, words by loads
 * of pairs of rows. Each step is loaded, into registers of its own, in front of the product of the step
 * before it, so that no product waits for a load. The slot is free when the last product is done;
 * derive_waits waits for it in the same iteration, since the next one loads into the same registers. Where B
 * lies across k, the generator exchanges the operands. */
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/pass.h"
#include "ir/passes/turns.h"

#define STEP_BYTES 32 /* of k: one product's */

typedef struct {
  IrModule *module;
  IrFunction *kernel;
  const IrOp *role;
  GPtrArray *products;
} Loads;

static void collect(IrOp *op, void *data)
{
  Loads *loads = data;
  if (op->code == OP_MMA && ir_passes_registers(loads->kernel, op)) g_ptr_array_add(loads->products, op);
}

/* Rows of the slot that the product takes; all of them if it names none. */
static IrExpr *rows_of(const Loads *loads, const IrExpr *access, int64_t all, IrExpr **slot)
{
  bool part = access->kind == EXPR_INDEX && access->n == 3;
  *slot = part ? access->items[0] : (IrExpr *)access;
  return part ? access->items[1]
              : ir_range(loads->module, ir_int(loads->module, 0), ir_int(loads->module, all));
}

/* One product and how it is taken apart. */
typedef struct {
  const Loads *loads;
  const IrOp *product;
  IrExpr *slot, *rows, *columns; /* of A's slot the rows, of B's all columns */
  IrType type;                   /* of what a step loads */
  int64_t step, depth;           /* of k */
} Steps;

static IrExpr *k_range(const Steps *steps, int64_t at)
{
  IrModule *module = steps->loads->module;
  return ir_range(module, ir_int(module, at), ir_int(module, at + steps->step));
}

/* NULL behind the last step. */
static IrExpr *load_step(const Steps *steps, IrBuilder *builder, int64_t at)
{
  IrModule *module = steps->loads->module;
  if (at >= steps->depth) return NULL;
  IrOp *get = ir_emit(builder, OP_GET, 1, ir_index(module, steps->slot, 2, steps->rows, k_range(steps, at)));
  ir_mechanism_set(get, ir_mechanism_first(module, MECHANISM_GET));
  return ir_value(module, ir_result(get, "a", steps->type));
}

static void multiply_step(const Steps *steps, IrBuilder *builder, IrExpr *a, int64_t at)
{
  const IrOp *product = steps->product;
  IrExpr *b = ir_index(steps->loads->module, product->operands[2], 2, k_range(steps, at), steps->columns);
  IrOp *part = ir_emit(builder, OP_MMA, 3, product->operands[0], a, b);
  for (unsigned i = 0; i < product->n_attributes; i++)
    if (at == 0 || product->attributes[i].key != ATTR_FIRST)
      ir_attribute_set(part, product->attributes[i].key, product->attributes[i].value);
}

static bool load_product(const Loads *loads, IrOp *product, GError **error)
{
  IrModule *module = loads->module;
  IrType a = ir_expr_type(loads->kernel, product->operands[1]),
         b = ir_expr_type(loads->kernel, product->operands[2]);
  int64_t m = ir_tile_extent(&a, 0), n = ir_tile_extent(&b, 1);
  int64_t step = number_elements(a.element, STEP_BYTES), extent[2] = {m, step};
  unsigned instances = (unsigned)ir_attribute_int(loads->role, ATTR_INSTANCES, 1),
           warpgroups = MAX(1, ir_role_warps(loads->role) / WARPGROUP_WARPS / instances);
  const Layout *layout =
      layout_group_a_across(module->arena, a.element, (unsigned)m, (unsigned)step, warpgroups);
  if (!layout) {
    error_set(error, ERROR_UNSUPPORTED, &product->mark, "operand", "an operand that lies along k",
              "no registers of a warpgroup MMA hold %u rows of %s that lie across k", (unsigned)m,
              number_name(a.element));
    return false;
  }
  Steps steps = {.loads = loads,
                 .product = product,
                 .columns = ir_range(module, ir_int(module, 0), ir_int(module, n)),
                 .type = ir_tile(module, a.element, 2, extent, layout),
                 .step = step,
                 .depth = ir_tile_extent(&a, 1)};
  steps.rows = rows_of(loads, product->operands[1], m, &steps.slot);
  IrBuilder builder = ir_builder_before(product);
  builder.mark = product->mark;
  IrExpr *here = load_step(&steps, &builder, 0);
  for (int64_t at = 0; at < steps.depth; at += step) {
    IrExpr *next = load_step(&steps, &builder, at + step);
    multiply_step(&steps, &builder, here, at);
    here = next;
  }
  ir_op_remove(product);
  return true;
}

bool pass_load_operands(IrModule *module, const IrPassContext *context, GError **error)
{
  IrFunction *kernel = ir_kernel(module);
  if (!kernel) return true;
  turns_settle(kernel, context);
  for (IrOp *role = kernel->body->first; role; role = role->next) {
    if (role->code != OP_ROLE) continue;
    g_autoptr(GPtrArray) products = g_ptr_array_new();
    Loads loads = {module, kernel, role, products};
    ir_region_visit(role->regions[0], collect, &loads);
    for (unsigned i = 0; i < products->len; i++)
      if (!load_product(&loads, products->pdata[i], error)) return false;
    if (products->len) ir_remark(context, "operands: A passes through registers, a step of k at a time");
  }
  return true;
}
