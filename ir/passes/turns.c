/* Ping-pong: instances of the consumer that take whole tiles in turn (split_roles); sections of the text that the
 * warpgroups of a role pass one after the other. */
#include "ir/passes/turns.h"
#include "ir/mechanism.h"
#include "ir/passes/split_roles.h"

#define TURN   "products"
#define ISSUES "issues"

static void skip_region(Role *role, IrBuilder *builder, const IrOp *loop, const IrRegion *region,
                        IrExpr *tiles)
{
  IrExpr *step =
      loop->n_operands > 2 ? role_rewrite(role, loop->operands[2]) : ir_int(role->split->module, 1);
  for (const IrOp *op = region->first; op; op = op->next) {
    if (op->code != OP_TAKE) continue;
    IrExpr *cursor = g_hash_table_lookup(role->cursors, op->operands[0]->name);
    ir_emit(builder, OP_SKIP, 5, cursor, tiles, role_rewrite(role, loop->operands[0]),
            role_rewrite(role, loop->operands[1]), step);
    skip_region(role, builder, loop, op->regions[0], tiles);
  }
}

/* Over the slots of so many tiles. */
void role_skip_tiles(Role *role, IrBuilder *builder, const IrOp *loop, IrExpr *tiles)
{
  skip_region(role, builder, loop, loop->regions[0], tiles);
}

static IrOp *emit_turn(IrModule *module, IrBuilder *builder, IrOpcode code, const char *turn)
{
  return ir_emit(builder, code, 2, ir_symbol(module, turn), ir_call(module, "instance", 0));
}

/* On barriers from `first` on, one an instance. */
static void name_turn(IrOp *turn, int64_t instances, int64_t first)
{
  IrModule *module = turn->parent->function->module;
  IrExpr **ids = arena_new_array(module->arena, IrExpr *, (size_t)instances);
  for (int64_t i = 0; i < instances; i++)
    ids[i] = ir_int(module, first + i);
  ir_attribute_set(turn, ATTR_INSTANCES, ir_int(module, instances));
  ir_attribute_set(turn, ATTR_IDS, ir_list(module, (unsigned)instances, ids));
}

/* One instance multiplies while the others store: each waits for its turn, */
void turn_enter(Role *role, IrBuilder *builder, const IrOp *loop)
{
  builder->mark = loop->mark;
  emit_turn(role->split->module, builder, OP_TURN_WAIT, TURN);
}

/* and steps over the slots of the tiles that are theirs. */
void turn_leave(Role *role, IrBuilder *builder, const IrOp *loop)
{
  builder->mark = loop->mark;
  emit_turn(role->split->module, builder, OP_TURN_PASS, TURN);
  role_skip_tiles(role, builder, loop, ir_int(role->split->module, role->split->pingpong - 1));
}

typedef struct {
  const IrOp *loop;
  const char *against;
} Counted;

static void find_uncounted(IrOp *op, void *data)
{
  Counted *counted = data;
  if (op->code != OP_TAKE) return;
  const IrOp *owner = op->parent->owner;
  while (owner && owner->code == OP_TAKE)
    owner = owner->parent->owner;
  if (owner != counted->loop) counted->against = "slots are taken elsewhere than in one loop over k";
}

static bool names_value(const IrExpr *expr)
{
  if (expr->kind == EXPR_VALUE) return true;
  for (unsigned i = 0; i < expr->n; i++)
    if (names_value(expr->items[i])) return true;
  return false;
}

/* Why the slots of another instance's tile cannot be counted; NULL: they can. */
static const char *uncounted(const Split *split, const IrOp *tiles, const IrOp *taking)
{
  Counted counted = {taking, NULL};
  if (tiles_are_streamed(tiles)) return "its k steps are divided among blocks (stream-K)";
  if (taking->code == OP_LOOP) return "the loop that takes slots may be left";
  if (taking->parent->owner != tiles) return "slots are taken in loops within loops";
  for (unsigned i = 0; i < taking->n_operands; i++)
    if (names_value(taking->operands[i])) return "how many steps of k it has differs from tile to tile";
  ir_region_visit(split->kernel->body, find_uncounted, &counted);
  return counted.against;
}

/* choose_layouts has given accumulators the layout of one instance where tiles can be taken in turn. */
void declare_turn(Split *split, const IrOp *tiles, const IrOp *taking, IrBuilder *builder)
{
  split->pingpong = 1;
  if (!tiles || !taking) return;
  split->pingpong = ir_attribute_int(tiles, ATTR_PINGPONG, 1);
  if (split->pingpong <= 1) return;
  const char *against = uncounted(split, tiles, taking);
  if (against) {
    error_set(split->error, ERROR_UNSUPPORTED, &tiles->mark, "stream",
              tiles_are_streamed(tiles) ? "pingpong 1, or stream_k 1" : "pingpong 1",
              "ping-pong: the slots of another warpgroup's tile cannot be counted: %s", against);
    split->failed = true;
    split->pingpong = 1;
    return;
  }
  builder->mark = taking->mark;
  IrOp *turn = ir_emit(builder, OP_TURN, 0);
  turn->symbol = TURN;
  name_turn(turn, split->pingpong, NAMED_BARRIER_FIRST);
  ir_remark(split->context, "ping-pong: %d instances of the consumer, %u warps each", (int)split->pingpong,
            split->consumer_warps);
}

/* ---- Sections ---- */

static void note_section(IrOp *op, void *data)
{
  if (op->code == OP_TURN && op->n_regions) g_ptr_array_add(data, op);
}

static IrOp *mark_section(Split *split, const IrOp *section, IrOpcode code, IrBuilder *builder)
{
  builder->mark = section->mark;
  return emit_turn(split->module, builder, code, section->symbol);
}

/* Who works in the section: the consumer, or a role that fills slots; NULL: several, or nobody but the producer. */
static const RoleNode *worker_of(const Split *split, const IrOp *section)
{
  const RoleNode *worker = NULL;
  for (unsigned i = 0; i < split->graph.n; i++) {
    const RoleNode *node = &split->graph.nodes[i];
    for (const IrOp *op = section->regions[0]->first; op; op = op->next) {
      bool works = g_hash_table_contains(node->does, op) &&
                   !(op->n_results && op->results[0]->type.kind == TYPE_SCALAR);
      if (works && worker && worker != node) return NULL;
      if (works) worker = node;
    }
  }
  return worker;
}

static void open_section(Split *split, IrOp *section, IrOp **marks)
{
  const IrRegion *body = section->regions[0];
  IrBuilder before = ir_builder_before(section), after = ir_builder_after(section);
  if (marks) {
    marks[0] = mark_section(split, section, OP_TURN_WAIT, &before);
    marks[1] = ir_emit(&before, OP_ORDER, 0);
  }
  for (IrOp *op = body->first, *next; op; op = next) {
    next = op->next;
    ir_op_move(op, section->parent, section);
  }
  if (marks) {
    marks[2] = ir_emit(&after, OP_ORDER, 0);
    marks[3] = mark_section(split, section, OP_TURN_PASS, &after);
  }
  ir_op_remove(section);
}

static const char *section_refusal(const Split *split, const IrOp *section, bool engine,
                                   const RoleNode *worker)
{
  if (!engine) return "one role does everything, whose warps work together";
  if (split->pingpong > 1) return "whole tiles are taken in turn";
  if (split->graph.n && !worker) return "several roles work in it";
  return section->symbol ? NULL : "it has no name";
}

void turn_sections(Split *split, IrBuilder *builder, bool engine)
{
  g_autoptr(GPtrArray) sections = g_ptr_array_new();
  ir_region_visit(split->kernel->body, note_section, sections);
  for (unsigned i = 0; i < sections->len; i++) {
    IrOp *section = sections->pdata[i], *marks[4];
    const RoleNode *worker = worker_of(split, section);
    const char *against = section_refusal(split, section, engine, worker);
    open_section(split, section, against ? NULL : marks);
    if (against) {
      ir_remark(split->context, "turn @%s left out: %s", section->symbol, against);
      continue;
    }
    for (unsigned j = 0; worker && j < G_N_ELEMENTS(marks); j++)
      g_hash_table_add(worker->does, marks[j]);
    unsigned warps = worker ? split->warps[worker - split->graph.nodes] : split->consumer_warps;
    builder->mark = section->mark;
    IrOp *turn = ir_emit(builder, OP_TURN, 0);
    turn->symbol = section->symbol;
    ir_attribute_set(turn, ATTR_INSTANCES, ir_int(split->module, MAX(1, warps / WARPGROUP_WARPS)));
  }
}

/* ---- Who takes turns, once instances are known ---- */

typedef struct {
  const IrOp *turn;
  const IrOp *role; /* in which it is taken */
  GPtrArray *marks; /* its waits and passes */
} TurnUse;

static void find_marks(IrOp *op, void *data)
{
  TurnUse *use = data;
  bool marks = (op->code == OP_TURN_WAIT || op->code == OP_TURN_PASS) && op->operands[0]->kind == EXPR_SYMBOL;
  if (marks && g_str_equal(op->operands[0]->name, use->turn->symbol)) g_ptr_array_add(use->marks, op);
}

static void take_out(IrOp *turn, const GPtrArray *marks)
{
  for (unsigned i = 0; i < marks->len; i++)
    ir_op_remove(marks->pdata[i]);
  ir_op_remove(turn);
}

static void settle_turn(IrFunction *kernel, const IrPassContext *context, IrOp *turn)
{
  g_autoptr(GPtrArray) marks = g_ptr_array_new();
  TurnUse use = {.turn = turn, .marks = marks};
  for (IrOp *op = kernel->body->first; op && !marks->len; op = op->next) {
    if (op->code != OP_ROLE) continue;
    use.role = op;
    ir_region_visit(op->regions[0], find_marks, &use);
  }
  int64_t instances = marks->len ? ir_attribute_int(use.role, ATTR_INSTANCES, 1) : 1,
          next = named_barrier_free(kernel);
  bool few = next + 2 * instances + OVERLAY_BARRIERS > context->gpu->named_barriers;
  if (instances < 2 || few) {
    ir_remark(context, "turn @%s left out: %s", turn->symbol,
              few ? "a block has too few named barriers" : "the role's warps work together, none by itself");
    take_out(turn, marks);
    return;
  }
  name_turn(turn, instances, next);
  ir_remark(context, "turn @%s: %d instances of role %s", turn->symbol, (int)instances, use.role->symbol);
}

void turns_settle(IrFunction *kernel, const IrPassContext *context)
{
  for (IrOp *op = kernel->body->first, *next; op; op = next) {
    next = op->next;
    if (op->code == OP_TURN && !ir_attribute(op, ATTR_IDS)) settle_turn(kernel, context, op);
  }
}

/* ---- Products in turn ---- */

/* Or what stands for one where a slot is left as it is (skip_steps). */
static bool is_in_turn(const IrOp *op)
{
  return (op->code == OP_MMA || op->code == OP_ADVANCE) && ir_attribute(op, ATTR_IN_TURN);
}

static void note_product(IrOp *op, void *data)
{
  if (is_in_turn(op)) g_ptr_array_add(data, op);
}

/* The last product of those that stand beside this one, but for waits for their slots. */
static IrOp *last_beside(IrOp *product)
{
  IrOp *last = product;
  for (IrOp *op = product->next; op && (op->code == OP_AWAIT || is_in_turn(op)); op = op->next)
    if (is_in_turn(op)) last = op;
  return last;
}

/* In front of the wait for its slot, where the turn begins early. */
static IrOp *first_in_turn(IrOp *product)
{
  IrOp *first = product;
  while (ir_attribute_is(product, ATTR_IN_TURN, "early") && first->previous &&
         first->previous->code == OP_AWAIT)
    first = first->previous;
  return first;
}

/* Barriers that nobody has: behind the block's, as those of stores are given out behind these. */
static bool declare_issues(IrFunction *kernel, const IrPassContext *context, const IrOp *role, Mark mark)
{
  int64_t instances = ir_attribute_int(role, ATTR_INSTANCES, 1);
  for (const IrOp *op = kernel->body->first; op; op = op->next)
    if (op->code == OP_TURN) return false;
  if (instances < 2 || NAMED_BARRIER_FIRST + 2 * instances > context->gpu->named_barriers) return false;
  IrBuilder builder = ir_builder_before(kernel->body->first);
  builder.mark = mark;
  IrOp *turn = ir_emit(&builder, OP_TURN, 0);
  turn->symbol = ISSUES;
  name_turn(turn, instances, NAMED_BARRIER_FIRST);
  return true;
}

static void issue_in_turn(IrFunction *kernel, const IrPassContext *context, const IrOp *role)
{
  g_autoptr(GPtrArray) products = g_ptr_array_new();
  ir_region_visit(role->regions[0], note_product, products);
  bool turns = products->len && declare_issues(kernel, context, role, ((IrOp *)products->pdata[0])->mark);
  for (unsigned i = 0; i < products->len; i++) {
    IrOp *product = products->pdata[i];
    if (!is_in_turn(product)) continue; /* beside another one */
    IrOp *last = last_beside(product);
    IrBuilder enter = ir_builder_before(first_in_turn(product)), leave = ir_builder_after(last);
    enter.mark = leave.mark = product->mark;
    if (turns) emit_turn(kernel->module, &enter, OP_TURN_WAIT, ISSUES);
    if (turns) emit_turn(kernel->module, &leave, OP_TURN_PASS, ISSUES);
    for (IrOp *op = product; op != last->next; op = op->next)
      ir_attribute_remove(op, ATTR_IN_TURN);
  }
}

void turns_of_products(IrFunction *kernel, const IrPassContext *context)
{
  for (IrOp *op = kernel->body->first; op; op = op->next)
    if (op->code == OP_ROLE) issue_in_turn(kernel, context, op);
}
