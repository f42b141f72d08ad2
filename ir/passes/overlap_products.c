/* overlap_products: of two products in a loop the next iteration's first is issued before the second of this one.
 *
 * needs  STAGED with instances split, no waits: a loop that takes a product of a sum of its own, computes with that sum, and
 *        takes a second product, of what it has computed, to a sum that lives on
 * gives  the loop `pipelined`: the second product with its slot is stage 1, everything else stage 0, and the second product
 *        stands behind the first, so that both are in flight while the results of the first are computed with; they
 *        are to be issued `in_turn`, and their slots are filled in the order in which they are taken
 * and    a role whose products the text marks `late` asks for the registers of their sums and operands together
 * breaks nothing; loops of any other form stay as they are, as do those whose sums and operand do not fit a thread's
 *        registers
 *
 * (Attention: Shah, Bikshandi, Zhang, Thakkar, Ramani and Dao, "FlashAttention-3", 2024: the scores of the next keys are
 * multiplied while the softmax of these is taken, and the other warpgroup's products run beside both.) */
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/pass.h"
#include "ir/passes/clear_slots.h"
#include "ir/passes/role_registers.h"
#include <string.h>

typedef struct {
  IrModule *module;
  const IrPassContext *context;
  IrFunction *kernel;
  IrOp *role, *loop;
  IrRegion *body;
  IrOp *declared;       /* the first product's sum */
  IrOp *first, *second; /* the products */
  IrOp *next[2];        /* the step of each one's ring behind it, which frees the slot */
} Overlap;

static bool is_zero(const IrExpr *expr)
{
  int64_t integer;
  if (expr->kind == EXPR_FLOAT) return expr->number == 0 && !signbit(expr->number);
  return ir_expr_is_int(expr, &integer) && integer == 0;
}

/* The channel that an access to a slot or its barrier names, or NULL. */
static const char *channel_of(const IrExpr *access)
{
  while (access && access->kind != EXPR_SYMBOL)
    access = access->n ? access->items[0] : NULL;
  return access ? access->name : NULL;
}

static bool same_channel(const IrOp *op, const IrOp *product)
{
  const char *a = channel_of(op->operands[0]), *b = channel_of(product->operands[2]);
  return a && b && g_str_equal(a, b);
}

/* The step behind the slot of a product's second operand. */
static bool find_step(Overlap *overlap, const IrOp *product, unsigned which)
{
  for (IrOp *op = overlap->body->first; op; op = op->next) {
    if (op->code != OP_ADVANCE || !same_channel(op->operands[0]->value->def, product)) continue;
    if (overlap->next[which]) return false;
    overlap->next[which] = op;
  }
  return overlap->next[which] != NULL;
}

static bool uses(IrOp *op, const IrValue *value)
{
  bool found = ir_op_uses(op, value);
  for (unsigned i = 0; i < op->n_regions; i++)
    found |= ir_region_uses(op->regions[i], value);
  return found;
}

static bool is_second_stage(const Overlap *overlap, const IrOp *op)
{
  return op == overlap->second || op == overlap->next[1];
}

static bool is_first_issue(const Overlap *overlap, const IrOp *op)
{
  return op == overlap->declared || op == overlap->first || op == overlap->next[0];
}

/* Two products, each with a slot of a channel of its own, and nothing else that orders agents. */
static bool find_products(Overlap *overlap)
{
  for (IrOp *op = overlap->body->first; op; op = op->next) {
    if (op->code == OP_TURN_WAIT)
      return false; /* the text says what instances do in turn, and in which order */
    if (!ir_is_grouped_product(op)) continue;
    if (overlap->second) return false;
    *(overlap->first ? &overlap->second : &overlap->first) = op;
  }
  const IrOp *first = overlap->first, *second = overlap->second;
  if (!second || first->operands[0]->kind != EXPR_VALUE || second->operands[0]->kind != EXPR_VALUE)
    return false;
  const char *channels[2] = {channel_of(first->operands[2]), channel_of(second->operands[2])};
  if (!channels[0] || !channels[1] || g_str_equal(channels[0], channels[1])) return false;
  return find_step(overlap, first, 0) && find_step(overlap, second, 1);
}

/* The first sum starts at zero in each iteration, the second one is the loop's. */
static bool check_sums(Overlap *overlap)
{
  const IrValue *own = overlap->first->operands[0]->value, *kept = overlap->second->operands[0]->value;
  overlap->declared = own->def;
  if (own->def->code != OP_VAR || own->def->parent != overlap->body || !own->def->n_operands ||
      !is_zero(own->def->operands[0]) || ir_attribute(overlap->first, ATTR_FIRST))
    return false;
  for (IrOp *op = own->def->next; op != overlap->first; op = op->next)
    if (!op || uses(op, own)) return false;
  for (const IrOp *op = kept->def; op; op = op->parent->owner)
    if (op->parent == overlap->body) return false;
  return kept != own;
}

/* `order` of the text, kept from the assembler. */
static bool is_order(const IrOp *op)
{
  return op->code == OP_FENCE && op->operands[0]->name && g_str_equal(op->operands[0]->name, "order");
}

/* What runs ahead of the second product of the iteration before does not touch what that reads or writes; behind the
 * second product nothing is left to do. */
static bool check_order(const Overlap *overlap)
{
  const IrValue *kept = overlap->second->operands[0]->value, *cursor = overlap->next[1]->operands[0]->value;
  bool before = true, behind = false;
  for (IrOp *op = overlap->body->first; op; op = op->next) {
    if (op->n_regions) return false;
    if (is_second_stage(overlap, op)) {
      behind |= op == overlap->second;
      continue;
    }
    if (behind) return false;
    bool orders = is_order(op); /* of registers alone */
    if (!is_first_issue(overlap, op) && !orders && (ir_op_effects(op->code) & (EFFECT_SYNC | EFFECT_WRITE)))
      return false;
    if (op->code == OP_ADVANCE && op != overlap->next[0]) return false;
    if (clears_first(op, overlap->loop)) continue; /* no second product has stepped the ring yet */
    if (uses(op, cursor) || (before && uses(op, kept))) return false;
    if (op == overlap->first) before = false;
  }
  return behind;
}

/* The second product reads a value of this iteration, which is kept until the next one; its slots are the channel's. */
static bool check_operand(const Overlap *overlap)
{
  const IrExpr *a = overlap->second->operands[1];
  return a->kind == EXPR_VALUE && !a->value->variable && a->value->type.kind == TYPE_TILE &&
         a->value->type.layout && a->value->def->parent == overlap->body;
}

static unsigned registers_of(const IrType *tile)
{
  unsigned n = tile->layout ? layout_registers(tile->layout) : 0;
  return (unsigned)(number_bytes_of(tile->element, n) + 3) / 4;
}

/* Where it takes them, the role asks for registers that the producer can do without. */
static bool registers_fit(const Overlap *overlap)
{
  const Gpu *gpu = overlap->context->gpu;
  unsigned sums = registers_of(&overlap->first->operands[0]->value->type) +
                  registers_of(&overlap->second->operands[0]->value->type) +
                  registers_of(&overlap->second->operands[1]->value->type);
  unsigned most = role_registers_most(overlap->kernel, gpu, overlap->role);
  if (sums + gpu->model->product_registers > most) {
    ir_remark(overlap->context, "products: not overlapped: two sums and an operand take %u of %u registers",
              sums, most);
    return false;
  }
  unsigned easy = sums + gpu->model->overlap_registers;
  if (easy > role_registers(overlap->kernel, gpu, overlap->role))
    ir_attribute_set(overlap->role, ATTR_REGISTERS, ir_int(overlap->module, MIN(easy, most)));
  return true;
}

/* ---- The form that write_pipelines takes ---- */

static void set_stages(const Overlap *overlap)
{
  IrModule *module = overlap->module;
  for (IrOp *op = overlap->body->first; op; op = op->next)
    ir_attribute_set(op, ATTR_STAGE, ir_int(module, is_second_stage(overlap, op) ? 1 : 0));
  ir_attribute_set(overlap->first, ATTR_FIRST, ir_int(module, 1));
  ir_attribute_set(overlap->first, ATTR_IN_TURN, ir_name(module, "full"));
  ir_attribute_set(overlap->second, ATTR_IN_TURN, ir_name(module, "early"));
  overlap->declared->n_operands = 0;
  ir_attribute_set(overlap->loop, ATTR_PIPELINED, ir_int(module, 1));
}

/* First product, second product, their steps, and then what is computed with the first. */
static void order(const Overlap *overlap)
{
  IrOp *place = overlap->first->next;
  IrOp *moved[] = {overlap->second, overlap->next[0], overlap->next[1]};
  for (unsigned i = 0; i < G_N_ELEMENTS(moved); i++) {
    if (moved[i] == place) {
      place = place->next;
      continue;
    }
    ir_op_move(moved[i], overlap->body, place);
  }
}

/* ---- Who fills the slots ---- */

/* Which of the two products' channels a copy, or what belongs to one, is for; -1: neither, 2: something that has no business here. */
static int fills_for(const Overlap *overlap, const IrOp *op)
{
  if (op->code == OP_LET) return -1;
  if (op->code == OP_ADVANCE) op = op->previous; /* the cursor's step stands behind the copy */
  if (!op || op->code != OP_COPY) return 2;
  if (same_channel(op, overlap->first)) return 0;
  return same_channel(op, overlap->second) ? 1 : 2;
}

/* A loop that fills the first product's slot of an iteration, then the second's, and does nothing else. */
static bool fills_both(const Overlap *overlap, const IrOp *loop)
{
  int last = -1;
  if (loop->code != OP_FOR || ir_attribute(loop, ATTR_PIPELINED)) return false;
  for (IrOp *op = loop->regions[0]->first; op; op = op->next) {
    int channel = fills_for(overlap, op);
    if (channel < 0) continue;
    if (channel > last + 1 || channel < last) return false;
    last = channel;
  }
  return last == 1;
}

/* Slots are filled in the order in which they are taken: the next iteration's first ahead of the second of this one, whose
 * slot is free later. */
static void fill_in_order(const Overlap *overlap, IrRegion *region)
{
  for (IrOp *op = region->first; op; op = op->next) {
    for (unsigned i = 0; i < op->n_regions; i++)
      fill_in_order(overlap, op->regions[i]);
    if (!fills_both(overlap, op)) continue;
    for (IrOp *inner = op->regions[0]->first; inner; inner = inner->next)
      ir_attribute_set(inner, ATTR_STAGE, ir_int(overlap->module, fills_for(overlap, inner) == 1));
    ir_attribute_set(op, ATTR_PIPELINED, ir_int(overlap->module, 1));
  }
}

/* ---- Products that the text has in flight together ---- */

typedef struct {
  GHashTable *sums; /* of the region's products that are late */
  unsigned operands;
} LateProducts;

static void add_late(IrOp *op, void *data)
{
  LateProducts *late = data;
  if (op->code != OP_MMA || !ir_attribute(op, ATTR_LATE)) return;
  g_hash_table_add(late->sums, op->operands[0]->value);
  if (op->operands[1]->kind == EXPR_VALUE) late->operands += registers_of(&op->operands[1]->value->type);
}

/* The role of such products asks for registers that the producer can do without. */
static void ask_for_late(const Overlap *overlap)
{
  const Gpu *gpu = overlap->context->gpu;
  g_autoptr(GHashTable) sums = g_hash_table_new(NULL, NULL);
  LateProducts late = {.sums = sums};
  GHashTableIter iterator;
  gpointer sum;
  for (unsigned i = 0; i < overlap->role->n_regions; i++)
    ir_region_visit(overlap->role->regions[i], add_late, &late);
  unsigned easy = late.operands + gpu->model->overlap_registers;
  g_hash_table_iter_init(&iterator, sums);
  while (g_hash_table_iter_next(&iterator, &sum, NULL))
    easy += registers_of(&((const IrValue *)sum)->type);
  unsigned most = role_registers_most(overlap->kernel, gpu, overlap->role);
  if (g_hash_table_size(sums) && easy > role_registers(overlap->kernel, gpu, overlap->role))
    ir_attribute_set(overlap->role, ATTR_REGISTERS, ir_int(overlap->module, MIN(easy, most)));
}

static void visit_region(const Overlap *kernel, IrRegion *region)
{
  for (IrOp *op = region->first; op; op = op->next) {
    Overlap overlap = *kernel;
    if (op->code == OP_ROLE) {
      overlap.role = op;
      ask_for_late(&overlap);
    }
    for (unsigned i = 0; i < op->n_regions; i++)
      visit_region(&overlap, op->regions[i]);
    if (op->code != OP_FOR || !overlap.role) continue;
    overlap.loop = op;
    overlap.body = op->regions[0];
    if (!find_products(&overlap) || !check_sums(&overlap) || !check_order(&overlap) ||
        !check_operand(&overlap) || !registers_fit(&overlap))
      continue;
    set_stages(&overlap);
    order(&overlap);
    fill_in_order(&overlap, kernel->kernel->body);
    ir_remark(overlap.context,
              "products: the next iteration's first is issued before the second of this one");
  }
}

bool pass_overlap_products(IrModule *module, const IrPassContext *context, GError **error)
{
  (void)error;
  IrFunction *kernel = ir_kernel(module);
  Overlap overlap = {.module = module, .context = context, .kernel = kernel};
  if (kernel) visit_region(&overlap, kernel->body);
  return true;
}
