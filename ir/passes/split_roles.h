/* Between the files of split_roles only: the kernel being divided, and one role being written. */
#pragma once
#include "ir/pass.h"
#include "ir/passes/cluster.h"
#include "ir/passes/role_graph.h"

typedef enum { ROLE_PRODUCER, ROLE_CONSUMER, ROLE_ALL } RoleKind;

typedef struct {
  const IrPassContext *context;
  IrModule *module;
  IrFunction *kernel;
  GHashTable *maps;     /* IrOp* of a fill -> symbol of the tensor map that it takes */
  GHashTable *channels; /* old CHANNEL IrOp* -> new one */
  unsigned consumer_warps;
  RoleGraph graph;                 /* of roles that fill slots with values; n 0: there are none */
  unsigned warps[ROLE_NODES_MOST]; /* of its roles */
  bool loads;                      /* an operand of a product passes through registers (load_operands) */
  bool apart;                      /* warps issue products, each its own, and answer for themselves */
  bool spans;                      /* several blocks take a product together */
  bool led;                        /* one of them issues it for all */
  Cluster cluster;
  const char
      *walk;     /* channel by which the producer tells the others the next tile (dynamic_walk.c), or NULL */
  bool combines; /* blocks that share a tile add it up once (combine), so they cannot walk */
  bool steps;    /* blocks walk steps together (await_step) */
  bool by_lanes; /* all lanes of a warp ask the tile scheduler together */
  const char *told;  /* channel by which those of the producer tell the others what they found, or NULL */
  int64_t pingpong;  /* instances of the consumer that take tiles in turn; 1: all warps take each tile */
  int64_t consumers; /* instances that each do all of a tile, from the same slots; 1: there are none */
  GError **error;
  bool failed;
} Split;

/* One role being written. */
typedef struct Role Role;
struct Role {
  Split *split;
  RoleKind kind;
  const RoleNode *node; /* what the role keeps of the kernel; NULL: all but fills */
  GHashTable *map;      /* IrValue* of the TILE form -> IrExpr* of the role */
  GHashTable *cursors;  /* channel symbol -> IrExpr* of the cursor that the current take reads with */
  GHashTable *writes; /* channel symbol -> IrExpr* of the cursor by which the role fills slots with values */
  IrExpr *walk;       /* the cursor by which it tells or is told the next tile, or NULL */
  GHashTable *filled; /* channel symbol -> IrRegion* in which threads filled the slot that is to be taken */
  const IrRegion *pipelined; /* body of the loop at hand whose slots are filled ahead, or NULL */
  GHashTable *needed;        /* of a producer: values_needed_by_fills() */
  /* Writes an op, or the fills of one slot, into the role; gives the last op that it has written. */
  const IrOp *(*copy)(Role *role, IrBuilder *builder, const IrOp *op);
};

/* role.c: an expression of the TILE form as the role has it. */
IrExpr *role_rewrite(Role *role, const IrExpr *expr);
/* The op without its regions, operands rewritten, results entered into the map. */
IrOp *role_copy_op(Role *role, IrBuilder *builder, const IrOp *op);
IrOp *role_channel_of(Split *split, const IrExpr *access);
IrExpr *role_cursor_new(Split *split, IrBuilder *builder, const char *channel, const char *name);
/* The copy that fills a tile of the slot under the cursor. */
IrOp *role_emit_copy(Role *role, IrBuilder *builder, const IrOp *fill, IrExpr *cursor);
/* role_maps.c: the tensor maps of fills by the engine, into split->maps. */
void role_declare_maps(Split *split, IrBuilder *builder, const GPtrArray *fills);
/* Are the k steps of the last tiles divided among all blocks? */
static inline bool tiles_are_streamed(const IrOp *tiles)
{
  return ir_attribute_int(tiles, ATTR_STREAM_K, 1) > 1;
}

/* ---- grid.c ---- */

/* Does a block walk several tiles? Under a budget of SMs every walk is persistent, so that no more blocks than that are launched. Blocks that
 * add up what they have of a tile cannot walk: the planner sees to it that they are few. Nor can those that walk steps. */
bool split_walks(const Split *split, const IrOp *tiles);
/* Blocks that the kernel asks each SM to hold. */
unsigned split_least_blocks(const Split *split);
/* The launch's blocks: all tiles, or as many as the SMs hold at once. */
void split_set_grid(Split *split, const GPtrArray *tiles);

/* ---- dynamic_walk.c: blocks that take the next tile when they are free ---- */

/* Declares what such a walk needs, if `tiles` asks for one and there can be one; sets split->walk. */
void dynamic_declare(Split *split, IrBuilder *builder, const IrOp *tiles, bool engine);
/* At the beginning of a role: its cursor of the walk. */
void dynamic_begin(Role *role, IrBuilder *builder);
bool dynamic_claims(const Role *role);
/* At the beginning of a tile, which all of `total` are (NULL: the device alone knows how many): the producer claims the next one. NULL: another
 * role, or a walk in a fixed order. */
IrExpr *dynamic_claim(const Role *role, IrBuilder *builder, IrExpr *total);
/* At its end: the producer tells the next one, and every role goes on with it. */
void dynamic_next(const Role *role, IrBuilder *builder, IrExpr *index, IrExpr *claimed);
/* Closes what scheduler_open() opened, whichever walk it is; `behind`: behind the loop; total: of the role that claims. */
void dynamic_close(const Role *role, IrBuilder *inner, IrBuilder *behind, IrExpr *index, IrExpr *claimed,
                   IrExpr *total);

/* Of a scheduler that lanes ask: the producer tells a tile's coordinates, NULL: that there is no further one; */
void told_tell(const Role *role, IrBuilder *builder, const IrOp *tiles, IrExpr *const *coordinates);
/* and the others go from one to the next. Gives the builder inside their loop. */
IrBuilder told_open(const Role *role, IrBuilder *builder, const IrOp *tiles, IrExpr **coordinates);

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
/* Sections of the text become waits and passes around what stood in them, in the role that does it, and declarations;
 * where nobody can take turns, nothing. */
void turn_sections(Split *split, IrBuilder *builder, bool engine);

/* ---- value_fills.c: slots that are filled with values ---- */

/* A cursor for each channel that the role fills with values. */
void role_write_cursors(Role *role, IrBuilder *builder, const GPtrArray *channels);
/* Waits until the slot is empty in front of what fills its first tile, tells that it is full behind the last. */
void role_put(Role *role, IrBuilder *builder, const IrOp *put);
/* Arrivals that fill a slot, and, 0 where none do, of those that fill it with values. */
int64_t role_full_arrivals(const Split *split, const IrOp *channel);
int64_t role_empty_arrivals(const Split *split, const IrOp *channel);
/* What a `take` of such a channel holds, where one role does everything: it meets in front of it. */
void role_take_values(Role *role, IrBuilder *builder, const IrOp *take);
/* Is the channel filled with values, by whatever role? */
bool role_has_values(const Split *split, const IrOp *channel);
/* What several blocks would share a tile or a cluster for is left to kernels of two roles. */
bool role_check_values(const Split *split, const IrOp *tiles, GError **error);

/* ---- thread_copies.c: slots that threads fill ---- */

/* Writes a loop whose slots are filled ahead; false: it fills nothing that can run ahead. */
bool role_copy_filling_loop(Role *role, IrBuilder *builder, const IrOp *loop);
/* Fills of one slot outside of such loops, where nothing runs ahead; gives the last of them. */
const IrOp *role_fill_here(Role *role, IrBuilder *builder, const IrOp *fill);
/* What a `take` holds, where threads have filled the slot. */
void role_take_filled(Role *role, IrBuilder *builder, const IrOp *take);
