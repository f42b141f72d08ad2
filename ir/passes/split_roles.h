/* Between the files of split_roles only: the kernel being divided, and one role being written. */
#pragma once
#include "ir/pass.h"
#include "ir/passes/cluster.h"

typedef enum { ROLE_PRODUCER, ROLE_CONSUMER, ROLE_ALL } RoleKind;

typedef struct {
  const IrPassContext *context;
  IrModule *module;
  IrFunction *kernel;
  GHashTable *maps;     /* tensor IrValue* -> symbol of its map */
  GHashTable *channels; /* old CHANNEL IrOp* -> new one */
  unsigned consumer_warps;
  bool loads; /* an operand of a product passes through registers (load_operands) */
  Cluster cluster;
  bool combines;    /* blocks that share a tile add it up once (combine), so they cannot walk */
  int64_t pingpong; /* instances of the consumer that take tiles in turn; 1: all warps take each tile */
  GError **error;
  bool failed;
} Split;

/* One role being written. */
typedef struct {
  Split *split;
  RoleKind kind;
  GHashTable *map;     /* IrValue* of the TILE form -> IrExpr* of the role */
  GHashTable *cursors; /* channel symbol -> IrExpr* of the cursor that the current take reads with */
  GHashTable *needed;  /* of a producer: values_needed_by_fills() */
} Role;

/* role.c: an expression of the TILE form as the role has it. */
IrExpr *role_rewrite(Role *role, const IrExpr *expr);
/* Are the k steps of the last tiles divided among all blocks? */
static inline bool tiles_are_streamed(const IrOp *tiles)
{
  return ir_attribute_int(tiles, ATTR_STREAM_K, 1) > 1;
}

/* ---- turns.c ---- */

/* Declares the turn if `tiles`, whose loop `taking` takes slots, asks for one; sets split->pingpong. Either may be
 * NULL. choose_layouts has given accumulators the layout of one instance where tiles can be taken in turn. */
void declare_turn(Split *split, const IrOp *tiles, const IrOp *taking, IrBuilder *builder);
/* Over the slots of so many tiles. */
void role_skip_tiles(Role *role, IrBuilder *builder, const IrOp *loop, IrExpr *tiles);
/* Around a loop that takes slots. One instance multiplies while the others store: each waits for its turn, and steps
 * over the slots of the tiles that are theirs. */
void turn_enter(Role *role, IrBuilder *builder, const IrOp *loop);
void turn_leave(Role *role, IrBuilder *builder, const IrOp *loop);
