/* Ping-pong: instances of the consumer that take whole tiles in turn (split_roles); sections of the text that the
 * warpgroups of a role pass one after the other. */
#include "ir/passes/turns.h"
#include "ir/mechanism.h"
#include "ir/passes/split_roles.h"

#define TURN "products"

/* Over the slots of so many tiles. */
void role_skip_tiles(Role *role, IrBuilder *builder, const IrOp *loop, IrExpr *tiles)
{
  IrExpr *step =
      loop->n_operands > 2 ? role_rewrite(role, loop->operands[2]) : ir_int(role->split->module, 1);
  for (const IrOp *op = loop->regions[0]->first; op; op = op->next) {
    if (op->code != OP_TAKE) continue;
    IrExpr *cursor = g_hash_table_lookup(role->cursors, op->operands[0]->name);
    ir_emit(builder, OP_SKIP, 5, cursor, tiles, role_rewrite(role, loop->operands[0]),
            role_rewrite(role, loop->operands[1]), step);
  }
}

static void emit_turn(Role *role, IrBuilder *builder, IrOpcode code)
{
  IrModule *module = role->split->module;
  ir_emit(builder, code, 2, ir_symbol(module, TURN), ir_call(module, "instance", 0));
}

/* One instance multiplies while the others store: each waits for its turn, */
void turn_enter(Role *role, IrBuilder *builder, const IrOp *loop)
{
  builder->mark = loop->mark;
  emit_turn(role, builder, OP_TURN_WAIT);
}

/* and steps over the slots of the tiles that are theirs. */
void turn_leave(Role *role, IrBuilder *builder, const IrOp *loop)
{
  builder->mark = loop->mark;
  emit_turn(role, builder, OP_TURN_PASS);
  role_skip_tiles(role, builder, loop, ir_int(role->split->module, role->split->pingpong - 1));
}

/* choose_layouts has given accumulators the layout of one instance where tiles can be taken in turn. */
void declare_turn(Split *split, const IrOp *tiles, const IrOp *taking, IrBuilder *builder)
{
  IrModule *module = split->module;
  split->pingpong = 1;
  if (!tiles || !taking) return;
  split->pingpong = ir_attribute_int(tiles, ATTR_PINGPONG, 1);
  if (split->pingpong <= 1) return;
  if (tiles_are_streamed(tiles)) { /* the slots of another instance's tile could not be counted */
    error_set(split->error, ERROR_UNSUPPORTED, &tiles->mark, "stream", "pingpong 1, or stream_k 1",
              "ping-pong: tiles whose k steps are divided among blocks (stream-K) cannot be taken so");
    split->failed = true;
    split->pingpong = 1;
    return;
  }
  IrExpr **ids = arena_new_array(module->arena, IrExpr *, split->pingpong);
  for (int64_t i = 0; i < split->pingpong; i++)
    ids[i] = ir_int(module, i + 1); /* 0 is the block's */
  builder->mark = taking->mark;
  IrOp *turn = ir_emit(builder, OP_TURN, 0);
  turn->symbol = TURN;
  ir_attribute_set(turn, ATTR_INSTANCES, ir_int(module, split->pingpong));
  ir_attribute_set(turn, ATTR_IDS, ir_list(module, (unsigned)split->pingpong, ids));
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
  IrModule *module = split->module;
  builder->mark = section->mark;
  return ir_emit(builder, code, 2, ir_symbol(module, section->symbol), ir_call(module, "instance", 0));
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

static void note_id(IrOp *op, void *data)
{
  int64_t *next = data, id;
  const IrExpr *ids = ir_attribute_value(op, ATTR_IDS), *one = ir_attribute_value(op, ATTR_ID);
  for (unsigned i = 0; ids && i < ids->n; i++)
    if (ir_expr_is_int(ids->items[i], &id)) *next = MAX(*next, id + 1);
  if (one && ir_expr_is_int(one, &id)) *next = MAX(*next, id + 1);
}

static void take_out(IrOp *turn, const GPtrArray *marks)
{
  for (unsigned i = 0; i < marks->len; i++)
    ir_op_remove(marks->pdata[i]);
  ir_op_remove(turn);
}

static void settle_turn(IrFunction *kernel, const IrPassContext *context, IrOp *turn)
{
  IrModule *module = kernel->module;
  g_autoptr(GPtrArray) marks = g_ptr_array_new();
  TurnUse use = {.turn = turn, .marks = marks};
  for (IrOp *op = kernel->body->first; op && !marks->len; op = op->next) {
    if (op->code != OP_ROLE) continue;
    use.role = op;
    ir_region_visit(op->regions[0], find_marks, &use);
  }
  int64_t instances = marks->len ? ir_attribute_int(use.role, ATTR_INSTANCES, 1) : 1,
          next = NAMED_BARRIER_FIRST;
  ir_region_visit(kernel->body, note_id, &next);
  bool few = next + 2 * instances + OVERLAY_BARRIERS > context->gpu->named_barriers;
  if (instances < 2 || few) {
    ir_remark(context, "turn @%s left out: %s", turn->symbol,
              few ? "a block has too few named barriers" : "the role's warps work together, none by itself");
    take_out(turn, marks);
    return;
  }
  IrExpr **ids = arena_new_array(module->arena, IrExpr *, (size_t)instances);
  for (int64_t i = 0; i < instances; i++)
    ids[i] = ir_int(module, next + i);
  ir_attribute_set(turn, ATTR_INSTANCES, ir_int(module, instances));
  ir_attribute_set(turn, ATTR_IDS, ir_list(module, (unsigned)instances, ids));
  ir_remark(context, "turn @%s: %d instances of role %s", turn->symbol, (int)instances, use.role->symbol);
}

void turns_settle(IrFunction *kernel, const IrPassContext *context)
{
  for (IrOp *op = kernel->body->first, *next; op; op = next) {
    next = op->next;
    if (op->code == OP_TURN && !ir_attribute(op, ATTR_IDS)) settle_turn(kernel, context, op);
  }
}
