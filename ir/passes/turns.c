/* Ping-pong: instances of the consumer that take whole tiles in turn (split_roles). */
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
