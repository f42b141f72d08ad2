/* Results of asynchronous products: which leave through shared memory, by TMA or by rows that threads write. */
#include "ir/facts.h"
#include "ir/passes/choose_mechanisms.h"
#include "ir/passes/division.h"
#include "ir/resources.h"
#include "ir/staging.h"

#define PLAN_BOX 256 /* rows of a part that a plan can describe */

/* Blocks that share the tile at hand. */
static int64_t sharing_blocks(const IrOp *op)
{
  while (op && op->code != OP_TILES)
    op = op->parent ? op->parent->owner : NULL;
  return op ? ir_attribute_int(op, ATTR_SPLIT_K, 1) : 1;
}

/* Shared memory that is spoken for: slots, and what combine_blocks will exchange. */
static uint64_t bytes_taken(const Choice *choice)
{
  uint64_t parts = 0, overlaid = 0;
  for (unsigned i = 0; i < choice->combinations->len; i++) {
    const IrOp *op = choice->combinations->pdata[i];
    const IrType *part = &op->results[0]->type;
    CombineShares shares;
    if (!division_shares(op, sharing_blocks(op), &shares)) continue; /* refused where it is expanded */
    uint64_t all = number_bytes_of(part->element, (uint64_t)(shares.parts * ir_tile_elements(part)));
    *(ir_attribute_int(op, ATTR_REUSE, 0) > 0 ? &overlaid : &parts) += all;
  }
  return parts + MAX(choice_ring_bytes(choice), overlaid);
}

/* Where a block has one tile (under a budget of SMs all blocks walk), nothing fills the slots again behind
 * its last step, so results may be staged there; so many bytes of them are already. */
static bool may_overlay(const Choice *choice, uint64_t overlaid, uint64_t staging)
{
  const IrOp *tiles = choice->tiles;
  bool walks = choice->context->sm_budget || !tiles || ir_attribute_int(tiles, ATTR_PERSISTENT, 0);
  bool once = !walks && choice_instances(choice) <= 1 && ir_attribute_int(tiles, ATTR_SPLIT_K, 1) <= 1 &&
              ir_attribute_int(tiles, ATTR_STREAM_K, 1) <= 1;
  return once && choice->channels->len == 1 && !choice->combinations->len &&
         overlaid + staging <= choice_ring_bytes(choice);
}

/* Bytes that stores take: of their own, and of slots. */
typedef struct {
  uint64_t used, overlaid;
} Staged;

/* Why TMA cannot write a tensor, or NULL. */
static const char *tensor_store_refusal(const Choice *choice, const IrType *tensor)
{
  const Mechanism *engine = ir_mechanism_usable(choice->module, MECHANISM_DRAIN, COMPLETES_THREAD_GROUP);
  if (!engine) return "the description lists no TMA copies";
  if (!ir_tensor_map_possible(choice->kernel, tensor, engine))
    return choice_refusal(choice, "base or strides are not known to be multiples of %u bytes",
                          MAX(engine->stride_multiple, engine->address_multiple));
  /* the engine writes whole pieces of 16 bytes: what lies behind the last element is not always its row's */
  unsigned piece = number_elements(tensor->element, 16);
  if (ir_known_multiple(choice->kernel, tensor->dims[ir_contiguous_dim(tensor)], piece) < piece)
    return "rows are not known to end with 16 bytes";
  return NULL;
}

/* Threads of an instance meet at a named barrier of theirs, behind the block's and those of the turns; where results take
 * the place of the ring, all of them before. */
static const char *barriers_refusal(const Choice *choice)
{
  unsigned instances = choice_instances(choice);
  for (unsigned i = 0; i < choice->products->len; i++) {
    const IrOp *mma = choice->products->pdata[i];
    unsigned rows = (unsigned)ir_tile_extent(&mma->operands[0]->value->type, 0);
    if (choice_instances(choice) <= 1)
      instances = MAX(instances, MAX(warpgroups_of_rows(rows), choice_beside(mma)));
  }
  unsigned turns = choice->pingpong > 1 ? choice->pingpong : 0,
           needed = NAMED_BARRIER_FIRST + turns + instances + OVERLAY_BARRIERS,
           most = choice->context->gpu->named_barriers;
  if (needed <= most) return NULL;
  return choice_refusal(choice, "it takes %u named barriers, a block has %u", needed, most);
}

/* Is the tensor what blocks leave for one another? A post orders what threads write, not what the engine does. */
static bool is_left_for_blocks(const Choice *choice, const IrExpr *access)
{
  const IrExpr *base = ir_access_base(access), *parts = ir_launch_get(choice->kernel, ATTR_PARTS);
  return parts && parts->name && base->kind == EXPR_VALUE && g_str_equal(parts->name, base->value->name);
}

/* Why a store cannot pass through shared memory, or NULL; its staging tiles are added to the bytes taken. */
static const char *staging_refusal(Choice *choice, IrOp *store, Staged *staged)
{
  const IrType *tensor = choice_tensor_of(store->operands[0]);
  if (!tensor || store->operands[1]->kind != EXPR_VALUE || ir_attribute(store, ATTR_WHERE))
    return "it is no plain store of a tile";
  if (is_left_for_blocks(choice, store->operands[0])) return "other blocks of the grid read it";
  const IrType *tile = &store->operands[1]->value->type;
  if (tile->kind != TYPE_TILE || tile->rank != 2 || tensor->rank < 2 || tile->element != tensor->element)
    return "it is no plain store of a tile";
  int inner = ir_contiguous_dim(tensor);
  bool across = inner == (int)tensor->rank - 2;
  if (!across && inner != (int)tensor->rank - 1) return "neither rows nor columns are contiguous";
  unsigned rows = (unsigned)ir_tile_extent(tile, 0), columns = (unsigned)ir_tile_extent(tile, 1);
  const Mechanism *engine = ir_mechanism_usable(choice->module, MECHANISM_DRAIN, COMPLETES_THREAD_GROUP);
  if (rows > PLAN_BOX || (engine && !tensor_box_side(rows, engine->box_max)) ||
      number_bits(tensor->element) % 8)
    return "a copy has no such rows";
  const char *against = barriers_refusal(choice);
  if (against) return against;
  unsigned bytes = number_bytes(tensor->element), all = rows * choice_instances(choice);
  StagingRules rules = staging_rules(choice->context->gpu);
  uint64_t staging =
      across ? staging_bytes_across(&rules, all, columns, bytes) : staging_bytes(&rules, all, columns, bytes);
  if (!staging && across) return "few rows of the tensor go straight from registers";
  if (!staging) return "the tile's rows divide into no parts of 16 bytes";
  /* threads write rows of a tile, none of its columns */
  if (across && tensor_store_refusal(choice, tensor)) return tensor_store_refusal(choice, tensor);
  uint64_t most = choice->context->gpu->shared_per_block - reserved_shared_bytes(choice->context->gpu);
  bool narrow = choice->pingpong > 1 && !across && !tensor_store_refusal(choice, tensor);
  if (staged->used + staging > most && narrow) {
    uint64_t least = staging_bytes_least(&rules, all, columns, bytes);
    if (least) staging = least;
  }
  bool fits = staged->used + staging <= most;
  if (!fits && !may_overlay(choice, staged->overlaid, staging)) return "no shared memory is left to stage it";
  *(fits ? &staged->used : &staged->overlaid) += staging;
  if (fits) return NULL;
  const IrOp *channel = choice->channels->pdata[0];
  ir_attribute_set(store, ATTR_OVERLAY, ir_name(choice->module, channel->symbol));
  return NULL;
}

/* An earlier store of a whole tile of the same type to the same tensor; of a part of one (`where`) there is none. */
static const IrOp *same_store(const Choice *choice, unsigned index)
{
  const IrOp *store = choice->stores->pdata[index];
  const IrExpr *base = ir_access_base(store->operands[0]);
  if (ir_attribute(store, ATTR_WHERE)) return NULL;
  for (unsigned i = 0; i < index && base->kind == EXPR_VALUE; i++) {
    const IrOp *other = choice->stores->pdata[i];
    const IrExpr *stored = ir_access_base(other->operands[0]);
    if (stored->kind != EXPR_VALUE || stored->value != base->value || ir_attribute(other, ATTR_WHERE))
      continue;
    IrType a = ir_expr_type(choice->kernel, store->operands[1]),
           b = ir_expr_type(choice->kernel, other->operands[1]);
    if (ir_type_equal(&a, &b)) return other;
  }
  return NULL;
}

static void note_post_step(IrOp *op, void *data)
{
  *(bool *)data |= op->code == OP_POST_STEP;
}

/* Stores of sums that a product leaves behind while its threads go on; elsewhere the threads that compute are also
 * those that copy. */
void choose_stores(Choice *choice)
{
  bool asynchronous = false;
  for (unsigned i = 0; i < choice->products->len; i++)
    asynchronous |= ir_is_asynchronous_product(choice->products->pdata[i]);
  bool steps = false;
  ir_region_visit(choice->kernel->body, note_post_step, &steps);
  if (steps) ir_remark(choice->context, "stores leave from registers: other blocks of the grid read them");
  if (!asynchronous || steps) return;
  Staged staged_bytes = {.used = bytes_taken(choice)};
  for (unsigned i = 0; i < choice->stores->len; i++) {
    IrOp *store = choice->stores->pdata[i];
    const IrOp *before = same_store(choice, i);
    const IrExpr *base = ir_access_base(store->operands[0]);
    if (before) { /* they are staged at one place */
      if (ir_attribute(before, ATTR_VIA))
        ir_attribute_set(store, ATTR_VIA, ir_attribute_value(before, ATTR_VIA));
      if (ir_attribute(before, ATTR_OVERLAY))
        ir_attribute_set(store, ATTR_OVERLAY, ir_attribute_value(before, ATTR_OVERLAY));
      continue;
    }
    const char *name = base->kind == EXPR_VALUE ? base->value->name : "a tile";
    const char *against = staging_refusal(choice, store, &staged_bytes);
    bool staged = !against;
    if (staged) against = tensor_store_refusal(choice, choice_tensor_of(store->operands[0]));
    if (staged)
      ir_mechanism_set(store, ir_mechanism_usable(choice->module, MECHANISM_DRAIN,
                                                  against ? COMPLETES_RESULT : COMPLETES_THREAD_GROUP));
    ir_remark(choice->context, "stores of %s: %s%s", name, against ? "TMA copies rejected: " : "TMA copies",
              against ? against : "");
  }
}
