#include "ir/passes/late_waits.h"
#include "ir/mechanism.h"
#include <string.h>

#define MOST_IN_FLIGHT 4 /* groups; more hide nothing */

/* A group of products that nobody has waited for. */
typedef struct {
  const IrOp *first;   /* its first product */
  const IrOp *product; /* its last */
  const char *channel; /* whose slot it reads */
  IrOp *release, *advance;
} Flight;

typedef struct {
  IrModule *module;
  IrRegion *region;
  Flight flight[MOST_IN_FLIGHT]; /* oldest first */
  unsigned n;
} Late;

bool has_late_products(const IrRegion *region)
{
  for (const IrOp *op = region->first; op; op = op->next)
    if (ir_is_grouped_product(op) && ir_attribute(op, ATTR_LATE)) return true;
  return false;
}

static const char *channel_of(const IrExpr *access)
{
  while (access && access->kind != EXPR_SYMBOL)
    access = access->n ? access->items[0] : NULL;
  return access ? access->name : NULL;
}

static bool touches(IrOp *op, const IrExpr *operand)
{
  if (operand->kind != EXPR_VALUE) return false;
  bool found = ir_op_uses(op, operand->value);
  for (unsigned i = 0; i < op->n_regions; i++)
    found |= ir_region_uses(op->regions[i], operand->value);
  return found;
}

/* Does an op compute what a variable is set to behind it? The assembler gives both the same registers. */
static bool computes(const IrOp *op, const IrExpr *variable)
{
  const IrValue *result = op->n_results == 1 && variable->kind == EXPR_VALUE ? op->results[0] : NULL;
  for (const IrOp *next = op->next; result && next; next = next->next) {
    bool takes = next->n_operands && next->operands[next->n_operands - 1]->kind == EXPR_VALUE &&
                 next->operands[next->n_operands - 1]->value == result;
    if (takes && next->code == OP_CONVERT) result = next->results[0];
    if (takes && next->code == OP_SET && next->operands[0]->value == variable->value) return true;
  }
  return false;
}

/* Writing a product's operand in registers, reading or writing its sum. */
static bool needs_product(IrOp *op, const IrOp *product)
{
  if (touches(op, product->operands[0])) return true;
  bool writes = op->code == OP_SET || op->n_regions > 0;
  return (writes && touches(op, product->operands[1])) || computes(op, product->operands[1]);
}

/* A product of the same sum: such run one behind the other anyway. */
static bool adds_on(const IrOp *op, const IrOp *product)
{
  const IrExpr *sum = product->operands[0];
  return ir_is_grouped_product(op) && sum->kind == EXPR_VALUE && op->operands[0]->kind == EXPR_VALUE &&
         op->operands[0]->value == sum->value;
}

/* The same of any of the group, or using the cursor whose step is put off. */
static bool needs(IrOp *op, const Flight *flight)
{
  for (const IrOp *product = flight->first; product; product = product->next) {
    if (!adds_on(op, product) && needs_product(op, product)) return true;
    if (product == flight->product) break;
  }
  return flight->advance && op != flight->advance && touches(op, flight->advance->operands[0]);
}

static void find_product(IrOp *op, void *data)
{
  *(bool *)data |= ir_is_grouped_product(op);
}

static bool holds_products(IrOp *op)
{
  bool found = false;
  for (unsigned i = 0; i < op->n_regions; i++)
    ir_region_visit(op->regions[i], find_product, &found);
  return found;
}

/* In front of `before` (NULL: at the end) the oldest `count` groups are done, and their slots free. */
static void retire(Late *late, unsigned count, IrOp *before)
{
  if (!count) return;
  IrBuilder builder = before ? ir_builder_before(before) : ir_builder_at_end(late->region);
  builder.mark = late->flight[0].product->mark;
  IrOp *wait = ir_emit(&builder, OP_WAIT_GROUP, 1, ir_name(late->module, "products"));
  ir_attribute_set(wait, ATTR_PENDING, ir_int(late->module, late->n - count));
  for (unsigned i = 0; i < count; i++) {
    Flight *flight = &late->flight[i];
    if (!flight->release) continue;
    ir_op_move(flight->release, late->region, before);
    ir_op_move(flight->advance, late->region, before);
  }
  late->n -= count;
  memmove(late->flight, late->flight + count, late->n * sizeof *late->flight);
}

/* The oldest group that reads the channel and whose release nobody has found yet. Where the next one adds on, and so nothing
 * else waits for it, it is done there. */
static void attach_release(Late *late, IrOp *arrive)
{
  const char *channel = channel_of(arrive->operands[0]);
  IrOp *advance = arrive->next;
  if (!advance || advance->code != OP_ADVANCE || !channel) return;
  for (unsigned i = 0; i < late->n; i++) {
    Flight *flight = &late->flight[i];
    if (flight->release || !flight->channel || !g_str_equal(flight->channel, channel)) continue;
    flight->release = arrive;
    flight->advance = advance;
    if (i + 1 < late->n && adds_on(flight[1].product, flight->product)) retire(late, i + 1, advance->next);
    return;
  }
}

/* Products right behind one another are one group. */
static IrOp *close_group(Late *late, IrOp *product)
{
  IrBuilder builder = ir_builder_before(product);
  builder.mark = product->mark;
  ir_emit(&builder, OP_FENCE, 1, ir_name(late->module, "products"));
  IrOp *last = product;
  ir_attribute_remove(last, ATTR_LATE);
  while (last->next && ir_is_grouped_product(last->next)) {
    last = last->next;
    ir_attribute_remove(last, ATTR_LATE);
  }
  builder = ir_builder_after(last);
  builder.mark = product->mark;
  IrOp *commit = ir_emit(&builder, OP_COMMIT, 1, ir_name(late->module, "products"));
  if (late->n == MOST_IN_FLIGHT) retire(late, 1, product);
  late->flight[late->n++] =
      (Flight){.first = product, .product = last, .channel = channel_of(last->operands[2])};
  return commit;
}

void wait_late(IrModule *module, IrRegion *region)
{
  Late late = {.module = module, .region = region};
  for (IrOp *op = region->first, *next; op; op = next) {
    unsigned count = holds_products(op) ? late.n : 0;
    next = op->next;
    for (unsigned i = count; i < late.n; i++)
      if (needs(op, &late.flight[i])) count = i + 1;
    retire(&late, count, op);
    if (op->code == OP_ARRIVE) attach_release(&late, op);
    if (ir_is_grouped_product(op)) next = close_group(&late, op)->next;
  }
  retire(&late, late.n, NULL);
}
