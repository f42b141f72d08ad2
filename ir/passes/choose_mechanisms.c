/* choose_mechanisms: which of the GPU's mechanisms moves each tile and takes each product.
 *
 * needs  TILE, instantiated: no parameters, calls or `when`
 * gives  `via` on every mma (group, warp, fma) and fill (tensor, async, plain), `size` on async and plain
 *        fills; a fill with a value is a `put`; on stores of a warpgroup MMA's results `via tma` where TMA may take them, else
 *        `via shared` where threads may write rows of them out of shared memory; `overlay` on those whose
 *        staging has only room in the slots of the kernel's channel
 * breaks nothing
 *
 * Only what the description lists is considered, best first:
 *   TMA copies + warpgroup MMAs   four warps multiply straight from shared memory
 *   bulk copies                  rows that lie in one piece, of slots that arithmetic alone reads
 *   async copies + warp MMAs     each thread copies 4, 8 or 16 bytes; fragments are loaded
 *   plain copies + warp MMAs     when no 4 bytes of the tensor are known to be aligned
 *   loads and puts               rows beside what TMA copies, and what threads do not fill and take in turn
 *   ... + scalar products            when no matrix product takes the types
 * A rejected mechanism leaves a remark that says why. */
#include "ir/passes/choose_mechanisms.h"
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/pass.h"
#include "ir/passes/divide_operands.h"
#include "ir/passes/fills.h"
#include "ir/passes/place_slots.h"
#include "ir/passes/slot_operands.h"
#include "ir/passes/value_loads.h"
#include "ir/resources.h"
#include <string.h>

#define MAX_FILLS 64 /* of one tile */

typedef struct {
  IrOp *slot;            /* the operand's tile in the channel */
  IrOp *fill[MAX_FILLS]; /* what fills it: all of it, or parts side by side */
  unsigned n;
  const IrType *tensor; /* of the first; the others have its element type and contiguous dimension */
  bool computed;        /* threads fill the tile with values, so that it may lie as the product likes it */
  int inner;            /* dimension of the tile that is contiguous in the tensor: 0, 1, or -1 */
  int along;            /* the same of the operand, which may be the tile transposed */
  unsigned k;           /* extent of the operand's second dimension */
  const IrType
      *registers; /* the operand is such a tile of registers instead, and nothing fills it; or NULL */
  unsigned parts; /* of it that blocks have, along this dimension of the slot; 0: each has all of it */
  unsigned divided;
} Operand;

static void collect(IrOp *op, void *data)
{
  Choice *choice = data;
  if (op->code == OP_FILL && !choice_tensor_of(op->operands[1])) { /* threads put a value of theirs there */
    op->code = OP_PUT;
    ir_mechanism_set(op, ir_mechanism_first(choice->module, MECHANISM_PUT));
    g_ptr_array_add(choice->puts, op);
  }
  if (op->code == OP_FILL) g_ptr_array_add(choice->fills, op);
  if (op->code == OP_MMA) g_ptr_array_add(choice->products, op);
  if (op->code == OP_STORE) g_ptr_array_add(choice->stores, op);
  if (op->code == OP_CHANNEL) {
    g_ptr_array_add(choice->channels, op);
    choice->by_warps |= ir_attribute_int(op, ATTR_BY_WARPS, 0) != 0;
    ir_attribute_remove(op, ATTR_BY_WARPS);
  }
  if (op->code == OP_TILES) {
    choice->pingpong = (unsigned)ir_attribute_int(op, ATTR_PINGPONG, 1);
    choice->consumers = (unsigned)ir_attribute_int(op, ATTR_CONSUMERS, 1);
    choice->tiles = op;
  }
  if (op->code == OP_COMBINE && !ir_attribute(op, ATTR_COUNT)) g_ptr_array_add(choice->combinations, op);
}

/* Two slots, so that one is filled while the other is read, where there is room for them. */
static void give_slot(Choice *choice, IrOp *mma, unsigned operand)
{
  IrType type = ir_expr_type(choice->kernel, mma->operands[operand]);
  uint64_t bytes = number_bytes_of(type.element, (uint64_t)ir_tile_elements(&type)),
           most = choice->context->gpu->shared_per_block - reserved_shared_bytes(choice->context->gpu);
  unsigned slots = choice_ring_bytes(choice) + 2 * bytes <= most ? 2 : 1;
  IrOp *fill = operand_to_slot(mma, operand, slots), *channel = NULL;
  ir_slot_of(choice->kernel, fill->operands[0], &channel);
  collect(fill, choice);
  collect(channel, choice);
  ir_remark(choice->context, "products: operand %u is a tile of registers, which passes through slots: `@%s`",
            operand, channel->symbol);
}

/* What no product takes from registers. */
static void give_slots(Choice *choice)
{
  for (unsigned i = 0; i < choice->products->len; i++) {
    for (unsigned operand = 1; operand <= 2; operand++)
      if (operand_needs_slot(choice->products->pdata[i], operand))
        give_slot(choice, choice->products->pdata[i], operand);
    ir_attribute_remove(choice->products->pdata[i], ATTR_THREADS);
  }
}

/* Dimension of a fill's tile that is contiguous in its tensor, or -1. */
static int inner_of(const IrType *tensor)
{
  int lead = (int)tensor->rank - 2, inner = ir_contiguous_dim(tensor) - lead;
  return inner < 0 || lead < 0 ? -1 : inner;
}

/* A slot that is filled with values lies as `product` reads it. */
static void turn_computed(const Choice *choice, const IrOp *mma, unsigned at, Operand *operand,
                          const Mechanism *product)
{
  if (!operand->computed) return;
  operand->inner = (int)ir_computed_inner(choice->kernel, mma, at, product);
  operand->along = mma->operands[at]->kind == EXPR_TRANSPOSED ? 1 - operand->inner : operand->inner;
}

/* The fills of a slot and the orientation they bring. */
static bool operand_find(Choice *choice, const IrExpr *access, Operand *operand)
{
  *operand = (Operand){.slot = ir_slot_of(choice->kernel, access, NULL)};
  if (access->kind == EXPR_VALUE && access->value->type.kind == TYPE_TILE) {
    operand->registers = &access->value->type;
    operand->inner = operand->along = 1; /* as fragments have them: along k */
    operand->k = (unsigned)ir_tile_extent(operand->registers, 1);
    return true;
  }
  if (!operand->slot) return false;
  IrType type = ir_expr_type(choice->kernel, access);
  operand->k = type.rank == 2 ? (unsigned)ir_tile_extent(&type, 1) : 1;
  operand->computed = slot_is_filled(choice->kernel, choice->puts, operand->slot);
  if (operand->computed) operand->tensor = operand->slot->declared;
  for (unsigned i = 0; i < choice->fills->len; i++) {
    IrOp *fill = choice->fills->pdata[i];
    if (ir_slot_of(choice->kernel, fill->operands[0], NULL) != operand->slot) continue;
    const IrType *tensor = choice_tensor_of(fill->operands[1]);
    if (!tensor || operand->n == MAX_FILLS || operand->computed) return false;
    if (!operand->n) operand->tensor = tensor;
    if (tensor->element != operand->tensor->element || inner_of(tensor) != inner_of(operand->tensor))
      return false;
    operand->fill[operand->n++] = fill;
  }
  if (operand->computed) return true;
  if (!operand->n) return false;
  operand->inner = operand->along = inner_of(operand->tensor);
  if (access->kind == EXPR_TRANSPOSED && operand->inner >= 0) operand->along = 1 - operand->inner;
  return true;
}

static NumberType operand_element(const Operand *operand)
{
  return operand->registers ? operand->registers->element : operand->tensor->element;
}

static unsigned tile_extent(const IrOp *slot, unsigned dim)
{
  return (unsigned)ir_tile_extent(slot->declared, dim);
}

/* Extent of what a fill brings: the tile, or a part of it. */
static unsigned filled_extent(const Choice *choice, const IrOp *fill, int dim)
{
  IrType type = ir_expr_type(choice->kernel, fill->operands[0]);
  return (unsigned)ir_tile_extent(&type, (unsigned)dim);
}

/* The same of what one block brings, where several have parts of the operand. */
static unsigned brought_extent(const Choice *choice, const Operand *operand, const IrOp *fill, int dim)
{
  unsigned extent = filled_extent(choice, fill, dim);
  return operand->parts && (int)operand->divided == dim ? extent / operand->parts : extent;
}

/* Rows of the pieces are multiples of a swizzle, which the tile then has (place_slots), and whole groups of the 8 after which it
 * repeats. */
static bool part_fits_swizzle(const Choice *choice, const Operand *operand, const IrOp *fill,
                              unsigned swizzles)
{
  NumberType element = operand->tensor->element;
  unsigned inner = (unsigned)operand->inner, run = tile_extent(operand->slot, inner);
  unsigned rows = filled_extent(choice, fill, 1 - operand->inner);
  for (unsigned i = 0; i < operand->n; i++)
    run = slot_run(choice->kernel, operand->fill[i], inner, run);
  if (!swizzle_widest(swizzles, (unsigned)number_bytes_of(element, run))) return false;
  return rows == tile_extent(operand->slot, 1 - inner) || rows % SWIZZLE_ROWS == 0;
}

static const char *missing(const Choice *choice, const Mechanism *mechanism)
{
  if (!mechanism->missing || strcmp(mechanism->missing, MECHANISM_NOT_LISTED)) return mechanism->missing;
  return choice_refusal(choice, "the description lists no %s", mechanism->label);
}

/* Why no box of the engine lies where a fill reads the tensor; NULL if one does. A box may begin at any row, but of a row at whole pieces
 * of it alone: the instruction faults else. */
static const char *box_refusal(const Choice *choice, const IrType *tensor, const IrOp *fill,
                               const Mechanism *engine)
{
  const IrExpr *access = ir_untransposed(fill->operands[1]);
  int inner = ir_contiguous_dim(tensor);
  unsigned piece = MAX(1, number_elements(tensor->element, engine->row_multiple));
  if (tensor->rank > engine->rank_max)
    return choice_refusal(choice, "the tensor has %u dimensions, a tensor map at most %u", tensor->rank,
                          engine->rank_max);
  if (!ir_tensor_map_possible(choice->kernel, tensor, engine))
    return choice_refusal(choice, "base or strides are not known to be multiples of %u bytes",
                          MAX(engine->stride_multiple, engine->address_multiple));
  if (access->kind == EXPR_INDEX && inner + 1 < (int)access->n &&
      ir_walked_multiple(choice->kernel, access->items[inner + 1], piece) < piece)
    return choice_refusal(choice, "tiles are not known to begin at multiples of %u bytes of a row",
                          engine->row_multiple);
  return NULL;
}

/* Why the engine cannot fill one tile, or a part of it, for a product; NULL if it can. */
static const char *fill_refusal(const Choice *choice, const Operand *operand, const IrOp *fill,
                                const Mechanism *engine, const Mechanism *product)
{
  const IrType *tensor = choice_tensor_of(fill->operands[1]);
  unsigned swizzles = mechanism_swizzles(engine, product, operand->tensor->element);
  unsigned width = (unsigned)number_bytes_of(operand->tensor->element,
                                             brought_extent(choice, operand, fill, operand->inner));
  unsigned rows = brought_extent(choice, operand, fill, 1 - operand->inner),
           swizzle = swizzle_widest(swizzles, width);
  const char *unmapped = box_refusal(choice, tensor, fill, engine);
  if (unmapped) return unmapped;
  if (!swizzles)
    return choice_refusal(choice, "%s and %s have no swizzle in common", engine->label, product->label);
  if (!swizzle)
    return choice_refusal(choice, "the tile's contiguous extent is not a multiple of %u bytes",
                          swizzles & -swizzles);
  if (!tensor_box_side(rows, engine->box_max))
    return choice_refusal(choice, "the tile divides into no boxes of at most %u elements a side",
                          engine->box_max);
  if (operand->parts) return NULL; /* it is the whole of the slot */
  return part_fits_swizzle(choice, operand, fill, swizzles) ? NULL
                                                            : "a part of the tile cuts through its swizzle";
}

/* Why a product cannot read what threads put into a slot, or NULL if it can. */
static const char *computed_refusal(const Operand *operand, const Mechanism *product)
{
  unsigned swizzles = mechanism_swizzles(NULL, product, operand->tensor->element);
  unsigned width = (unsigned)number_bytes_of(operand->tensor->element,
                                             tile_extent(operand->slot, (unsigned)operand->inner));
  return swizzle_widest(swizzles, width) ? NULL : "the slot's rows are no multiple of a swizzle";
}

/* Why the engine cannot fill this operand of a product, or NULL if it can. */
static const char *engine_refusal(const Choice *choice, const Operand *operand, const Mechanism *engine,
                                  const Mechanism *product)
{
  if (operand->registers) return NULL;
  if (operand->computed) return computed_refusal(operand, product);
  if (operand->inner < 0) return "no dimension of the tensor's tile is contiguous";
  for (unsigned i = 0; i < operand->n; i++) {
    const char *against = fill_refusal(choice, operand, operand->fill[i], engine, product);
    if (against) return against;
  }
  return NULL;
}

/* What mbarriers count of a ring: bytes that fill a slot, arrivals that free it. */
static const char *barrier_refusal(const Choice *choice, const Operand *operand, const IrOp *mma,
                                   const Mechanism *product)
{
  const Gpu *gpu = choice->context->gpu;
  const IrOp *channel = operand->slot->parent->owner, *tiles = choice->tiles;
  uint64_t bytes = (uint64_t)ir_slot_bytes(channel);
  double bytes_max = gpu_fact(gpu, "mbarrier.bytes_max"),
         arrivals_max = gpu_fact(gpu, "mbarrier.arrivals_max");
  if ((double)bytes > bytes_max)
    return choice_refusal(choice,
                          "a slot of %" G_GUINT64_FORMAT " bytes is more than the %.0f an mbarrier counts",
                          bytes, bytes_max);
  unsigned rows = (unsigned)ir_tile_extent(&mma->operands[0]->value->type, 0);
  unsigned groups =
      choice_instances(choice) > 1 ? choice->consumers : MAX(warpgroups_of_rows(rows), choice_beside(mma));
  int64_t lines = 1;
  if (tiles && ir_attribute_int(tiles, ATTR_SPLIT_K, 1) <= 1)
    lines = ir_attribute_int(tiles, ATTR_CLUSTER_M, 1) + ir_attribute_int(tiles, ATTR_CLUSTER_N, 1) - 1;
  bool together = lines > 1 && product->issue == ISSUE_WARPGROUP;
  int64_t arrivals = (together ? groups : groups * product->warps) * lines;
  if ((double)arrivals > arrivals_max)
    return choice_refusal(choice, "%d arrivals free a slot, more than the %.0f an mbarrier counts",
                          (int)arrivals, arrivals_max);
  return NULL;
}

/* Can A pass through registers (load_operands), in which its elements change places on the way: words by loads of
 * their own, bytes by four matrices that are transposed at once? */
static bool across_registers(const Choice *choice, const GpuProduct *product)
{
  const Mechanism *loads = ir_mechanism_issued(choice->module, MECHANISM_GET, ISSUE_WARP);
  bool matrices = loads && !loads->missing && loads->transposes && mechanism_matrices(loads, 4) == 4;
  unsigned bits = number_bits(product->a);
  return product->a_from_registers && (bits == 32 || (bits == 8 && matrices));
}

/* Why a product's instruction does not take a tile, or NULL if it does. One that reads shared memory is as
 * wide as the tile; fragments in registers are taken piece by piece. */
static const char *shape_refusal(const Choice *choice, const IrOp *mma, const Operand *a,
                                 const Mechanism *mechanism, const GpuProduct *shape)
{
  const IrType *acc = &mma->operands[0]->value->type;
  unsigned m = (unsigned)ir_tile_extent(acc, 0), n = (unsigned)ir_tile_extent(acc, 1), k = a->k;
  bool legal_n = false;
  for (unsigned i = 0; i < shape->n_count; i++)
    legal_n |= mechanism->b & IN_SHARED ? shape->n[i] == n : n % shape->n[i] == 0;
  if (m % shape->m == 0 && legal_n && k % shape->k == 0) return NULL;
  return mechanism->b & IN_SHARED ? choice_refusal(choice, "the tile is no multiple of a %.*s's shape",
                                                   (int)strlen(mechanism->label) - 1, mechanism->label)
                                  : "the tile is no multiple of their shape";
}

/* Why a product cannot be taken by a mechanism whatever fills its operands, or NULL if it can. */
static const char *product_refusal(const Choice *choice, const IrOp *mma, const Operand *a, const Operand *b,
                                   const Mechanism *mechanism)
{
  const IrType *acc = &mma->operands[0]->value->type;
  if (mechanism->missing) return missing(choice, mechanism);
  if (mechanism->accumulator == ACCUMULATOR_THREAD) return NULL; /* any shape of any type */
  const GpuProduct *shape =
      mechanism_product(mechanism, operand_element(a), operand_element(b), acc->element);
  if (!shape)
    return mechanism->b & IN_SHARED ? choice_refusal(choice, "no %.*s takes these types",
                                                     (int)strlen(mechanism->label) - 1, mechanism->label)
                                    : "none takes these types";
  const char *against = shape_refusal(choice, mma, a, mechanism, shape);
  if (against || !(mechanism->b & IN_SHARED)) return against;
  if (a->registers && !shape->a_from_registers)
    return choice_refusal(choice, "%s of this type take no operand from registers", mechanism->label);
  bool turned = mma->operands[1]->kind == EXPR_TRANSPOSED;
  if (a->along != 1 && !shape->a_transposed && (turned || !across_registers(choice, shape)))
    return choice_refusal(choice, "%s of this type need A contiguous along k", mechanism->label);
  if (b->along != 0 && !shape->b_transposed)
    return choice_refusal(choice, "%s of this type need B contiguous along k", mechanism->label);
  return NULL;
}

/* Bytes one thread may copy at once for this fill. */
static unsigned fill_bytes(Choice *choice, const Operand *operand, const IrOp *fill)
{
  const IrExpr *access = fill->operands[1];
  IrExpr *corner[IR_MAX_RANK];
  for (unsigned d = 0; d + 1 < access->n && d < IR_MAX_RANK; d++)
    corner[d] = access->items[d + 1];
  unsigned extent = operand->inner < 0 ? 1 : filled_extent(choice, fill, operand->inner);
  unsigned vector = ir_access_vector(choice->kernel, choice_tensor_of(access), corner, extent);
  return (unsigned)number_bytes_of(operand->tensor->element, vector);
}

/* The same for all fills of an operand, so that one mechanism serves them. */
static unsigned copy_bytes(Choice *choice, const Operand *operand)
{
  unsigned bytes = fill_bytes(choice, operand, operand->fill[0]);
  for (unsigned i = 1; i < operand->n; i++)
    bytes = MIN(bytes, fill_bytes(choice, operand, operand->fill[i]));
  return bytes;
}

static void fill_via(Choice *choice, const Operand *operand, const Mechanism *mechanism)
{
  (void)choice;
  for (unsigned i = 0; i < operand->n; i++)
    ir_mechanism_set(operand->fill[i], mechanism);
}

/* The first mechanism by which threads copy that has an access of no more than the bytes that are aligned;
 * sets `via` and `size`. */
static bool choose_thread_copy(Choice *choice, const IrOp *mma, Operand *operand, const char *tile_name)
{
  if (operand->computed) return true;
  unsigned bytes = copy_bytes(choice, operand), n, size = 0;
  const Mechanism *rows = ir_mechanisms(choice->module, &n), *chosen = NULL;
  for (unsigned i = 0; i < n && !chosen; i++) {
    if (rows[i].kind != MECHANISM_FILL || rows[i].completion == COMPLETES_BARRIER_BYTES) continue;
    size = rows[i].missing ? 0 : mechanism_size(&rows[i], bytes);
    if (size) {
      chosen = &rows[i];
      continue;
    }
    const char *against = rows[i].missing ? rows[i].missing
                                          : choice_refusal(choice, "no %u bytes are known to be aligned",
                                                           rows[i].sizes & -rows[i].sizes);
    ir_remark(choice->context, "%s: %s rejected: %s", tile_name, rows[i].label, against);
  }
  if (!chosen) {
    error_set(choice->error, ERROR_UNSUPPORTED, &mma->mark, "no-copy", NULL,
              "no mechanism of %s copies tiles whose addresses are multiples of %u bytes",
              choice->context->gpu->name, bytes);
    choice->failed = true;
    return false;
  }
  fill_via(choice, operand, chosen);
  for (unsigned i = 0; i < operand->n; i++) {
    ir_attribute_set(operand->fill[i], ATTR_SIZE, ir_int(choice->module, size));
    /* ptxas 13.0.88 can put the descriptor of a thread's copy that has a cache policy into an odd uniform
     * register (LDGSTS [R+UR], desc[UR1]), which a GPU refused as an illegal instruction */
    ir_attribute_remove(operand->fill[i], ATTR_CACHE);
  }
  ir_remark(choice->context, "%s: filled by %s of %u bytes", tile_name, chosen->label, size);
  return true;
}

/* Does A lie across k for a product that cannot read it so, and pass through registers? */
static bool passes_registers(const IrOp *mma, const Operand *a, const Operand *b, const Mechanism *product)
{
  const GpuProduct *shape = mechanism_product(product, operand_element(a), operand_element(b),
                                              mma->operands[0]->value->type.element);
  return a->along != 1 && shape && !shape->a_transposed;
}

/* Why A cannot: each warpgroup loads rows of its own, which are whole panels of a swizzle (choose_layouts). NULL: it can. */
static const char *panel_refusal(const Choice *choice, const Operand *a, const Mechanism *engine,
                                 const Mechanism *product)
{
  unsigned rows = tile_extent(a->slot, (unsigned)a->inner), own = rows / warpgroups_of_rows(rows),
           swizzles = mechanism_swizzles(engine, product, operand_element(a));
  if (swizzle_widest(swizzles, (unsigned)number_bytes_of(operand_element(a), own))) return NULL;
  return choice_refusal(
      choice, "a warpgroup's %u rows of A, which pass through registers, are no multiple of %u bytes", own,
      swizzles & -swizzles);
}

/* A product that goes on while its threads do reads what an engine has filled: nobody else counts its bytes on
 * a barrier. */
static bool take_from_engine(Choice *choice, IrOp *mma, Operand *a, Operand *b, const Mechanism *product)
{
  const Mechanism *engine = ir_mechanism_engine(choice->module, true);
  const char *against = !engine           ? "the description lists no TMA copies"
                        : choice->threads ? "threads have to fill another slot of the kernel"
                                          : product_refusal(choice, mma, a, b, product);
  OperandParts parts = {choice->context, choice->kernel, choice->tiles};
  unsigned divided = operand_divided(&parts, product);
  Operand *operands[] = {NULL, a, b};
  for (unsigned i = 1; i <= 2; i++) {
    operands[i]->parts = divided == i ? mechanism_blocks(product) : 0;
    operands[i]->divided = operand_divided_dim(mma, i);
  }
  if (!against) against = divided_refusal(&parts, mma, product);
  if (!against) against = engine_refusal(choice, a, engine, product);
  if (!against) against = engine_refusal(choice, b, engine, product);
  if (!against && passes_registers(mma, a, b, product))
    against = a->parts ? "A lies across k, and no peer reads the registers that it would pass through"
                       : panel_refusal(choice, a, engine, product);
  if (!against) against = barrier_refusal(choice, a->registers ? b : a, mma, product);
  if (against) {
    ir_remark(choice->context, "products: TMA copies + %s rejected: %s", product->label, against);
    return false;
  }
  ir_mechanism_set(mma, product);
  fill_via(choice, a, engine);
  fill_via(choice, b, engine);
  ir_remark(choice->context, "products: %s, from shared memory filled by %s", product->name, engine->label);
  if (passes_registers(mma, a, b, product))
    ir_remark(choice->context, "products: A lies across k and passes through registers");
  return true;
}

static bool take_from_threads(Choice *choice, IrOp *mma, Operand *a, Operand *b, const Mechanism *product)
{
  const char *against = product_refusal(choice, mma, a, b, product);
  if (against) {
    ir_remark(choice->context, "products: %s rejected: %s", product->label, against);
    return false;
  }
  ir_mechanism_set(mma, product);
  if (product->accumulator == ACCUMULATOR_THREAD && a->registers) { /* threads read both from slots */
    give_slot(choice, mma, 1);
    operand_find(choice, mma->operands[1], a);
  }
  if (product->accumulator == ACCUMULATOR_THREAD)
    ir_remark(choice->context, "products: scalar multiply-adds");
  else
    ir_remark(choice->context, "products: %s, from fragments", product->name);
  return (a->registers || choose_thread_copy(choice, mma, a, "A")) && choose_thread_copy(choice, mma, b, "B");
}

static void refuse_operand(Choice *choice, const IrOp *mma, const Operand *operand)
{
  choice->failed = true;
  if (!operand->slot)
    error_set(
        choice->error, ERROR_UNSUPPORTED, &mma->mark, "mma-operands",
        "tiles of registers, or of a channel that a fill of the kernel fills, from a tensor or with a value",
        "an operand of this product is neither a tile of registers nor of a channel");
  else
    error_set(choice->error, ERROR_UNSUPPORTED, &mma->mark, "mma-operands",
              "tensors of one element type and one contiguous dimension, or a channel for each",
              "fills of `@%s.%s` bring tiles that lie in different ways",
              operand->slot->parent->owner->symbol, operand->slot->symbol);
}

static void choose_product(Choice *choice, IrOp *mma)
{
  Operand a, b;
  if (!operand_find(choice, mma->operands[1], &a)) return refuse_operand(choice, mma, &a);
  if (!operand_find(choice, mma->operands[2], &b)) return refuse_operand(choice, mma, &b);
  unsigned n;
  const Mechanism *rows = ir_mechanisms(choice->module, &n);
  for (unsigned i = 0; i < n && !choice->failed; i++) {
    if (rows[i].kind != MECHANISM_PRODUCT) continue;
    turn_computed(choice, mma, 1, &a, &rows[i]);
    turn_computed(choice, mma, 2, &b, &rows[i]);
    if (choice->by_warps && rows[i].issue == ISSUE_WARPGROUP) continue;
    bool engine = mechanism_is_asynchronous(&rows[i]) || (choice->by_warps && rows[i].issue == ISSUE_WARP);
    bool taken = engine && take_from_engine(choice, mma, &a, &b, &rows[i]);
    if (!taken && !mechanism_is_asynchronous(&rows[i]))
      taken = take_from_threads(choice, mma, &a, &b, &rows[i]);
    if (taken) return;
  }
  if (choice->failed) return;
  error_set(choice->error, ERROR_UNSUPPORTED, &mma->mark, "no-product", NULL,
            "no mechanism of %s takes this product", choice->context->gpu->name);
  choice->failed = true;
}

/* ---- Slots that arithmetic alone reads ---- */

/* Do products take what is computed from the slot, whose rows are then swizzled, and come in boxes no wider than that? */
static bool comes_in_panels(const Choice *choice, const Operand *operand, const Mechanism *engine,
                            unsigned inner)
{
  NumberType element = operand->slot->declared->element;
  unsigned bytes = (unsigned)number_bytes_of(element, inner);
  bool makes = false;
  for (unsigned i = 0; i < choice->products->len && !makes; i++) {
    const IrOp *mma = choice->products->pdata[i];
    makes = slot_makes(choice->kernel, mma->operands[1], operand->slot);
  }
  return makes && operand->inner == 1 && ir_tile_extent(operand->slot->declared, 0) > 1 &&
         swizzle_widest(mechanism_swizzles(engine, NULL, element), bytes);
}

/* Why the engine cannot fill a tile that lies row by row; NULL if it can. */
static const char *rows_refusal(const Choice *choice, const Operand *operand, const Mechanism *engine)
{
  const IrOp *fill = operand->fill[0];
  const IrType *tensor = choice_tensor_of(fill->operands[1]);
  if (!engine) return "the description lists no TMA copies";
  if (choice->threads) return "threads have to fill another slot of the kernel";
  if (operand->inner < 0) return "no dimension of the tensor's tile is contiguous";
  const char *unmapped = box_refusal(choice, tensor, fill, engine);
  if (unmapped) return unmapped;
  unsigned inner = filled_extent(choice, fill, operand->inner),
           rows = filled_extent(choice, fill, 1 - operand->inner);
  if (number_bytes_of(tensor->element, inner) % MAX(1, engine->row_multiple))
    return choice_refusal(choice, "the tile's contiguous extent is not a multiple of %u bytes",
                          engine->row_multiple);
  bool panels = comes_in_panels(choice, operand, engine, inner);
  if ((inner > engine->box_max && !panels) || !tensor_box_side(rows, engine->box_max))
    return choice_refusal(choice, "the tile divides into no boxes of at most %u elements a side",
                          engine->box_max);
  unsigned wide = panels ? swizzle_widest(mechanism_swizzles(engine, NULL, tensor->element),
                                          (unsigned)number_bytes_of(tensor->element, inner))
                         : (unsigned)number_bytes_of(tensor->element, inner);
  if (rows < tile_extent(operand->slot, 1 - (unsigned)operand->inner) &&
      rows * wide % MAX(1, engine->alignment))
    return choice_refusal(choice, "parts of the tile do not begin at multiples of %u bytes of the slot",
                          engine->alignment);
  return NULL;
}

/* Why an engine that moves pieces of memory cannot fill a tile row by row; NULL if it can. */
static const char *pieces_refusal(const Choice *choice, const Operand *operand, const Mechanism *engine)
{
  if (!engine) return "the description lists none";
  if (choice->threads) return "threads have to fill another slot of the kernel";
  double most = gpu_fact(choice->context->gpu, "mbarrier.bytes_max");
  if ((double)ir_slot_bytes(operand->slot->parent->owner) > most)
    return choice_refusal(choice, "a slot has more than the %.0f bytes an mbarrier counts", most);
  return fill_pieces_refusal(choice->kernel, choice->tiles, operand->fill[0], engine);
}

/* The engine that fills a slot which no product reads; NULL: threads do. */
static const Mechanism *engine_of_rows(Choice *choice, const Operand *operand)
{
  for (unsigned maps = 1; maps < 2; maps--) { /* by a tensor map where there is one for the tile */
    const Mechanism *engine = ir_mechanism_engine(choice->module, maps);
    const char *against =
        maps ? rows_refusal(choice, operand, engine) : pieces_refusal(choice, operand, engine);
    if (!against) return engine;
    ir_remark(choice->context, "%s: %s copies rejected: %s", operand->slot->symbol, maps ? "TMA" : "bulk",
              against);
  }
  return NULL;
}

/* Does an engine fill slots of the kernel? Then roles of their own do the rest. */
static bool filled_by_engine(const Choice *choice)
{
  bool engine = false;
  for (unsigned i = 0; i < choice->fills->len; i++)
    engine |= ir_is_engine_copy(choice->fills->pdata[i]);
  return engine;
}

/* Roles that fill slots with values belong to kernels whose tiles are one block's each. */
static bool has_whole_tiles(const Choice *choice)
{
  const IrOp *tiles = choice->tiles;
  return !tiles ||
         (ir_attribute_int(tiles, ATTR_SPLIT_K, 1) <= 1 && ir_attribute_int(tiles, ATTR_STREAM_K, 1) <= 1);
}

/* Threads load the tile, and fill the slot with it as with what they compute. */
static void fill_by_value(Choice *choice, IrOp *fill)
{
  g_ptr_array_remove(choice->fills, fill);
  collect(fill_with_loaded(fill), choice);
}

/* Slots that are not filled and taken in turn cannot be filled ahead by those who take them. */
static void load_out_of_turn(Choice *choice)
{
  for (unsigned i = 0; i < choice->channels->len; i++) {
    const IrOp *channel = choice->channels->pdata[i];
    unsigned before = choice->fills->len;
    if (channel_in_turn(choice->kernel, channel)) continue;
    for (unsigned j = before; j-- > 0;) {
      IrOp *fill = choice->fills->pdata[j], *filled = NULL;
      if (ir_slot_of(choice->kernel, fill->operands[0], &filled) && filled == channel)
        fill_by_value(choice, fill);
    }
    if (choice->fills->len == before) continue; /* filled with values as it is */
    ir_remark(choice->context,
              "@%s: tiles are loaded and put into slots, which are not filled and taken in turn",
              channel->symbol);
  }
}

/* As the slots of products are filled, if there are products. */
static void choose_other_fill(Choice *choice, IrOp *fill)
{
  const IrType *tensor = choice_tensor_of(fill->operands[1]);
  Operand operand = {
      .slot = ir_slot_of(choice->kernel, fill->operands[0], NULL), .fill = {fill}, .n = 1, .tensor = tensor};
  if (!operand.slot || !tensor || tensor->rank < 2 || operand.slot->declared->rank != 2) {
    error_set(choice->error, ERROR_UNSUPPORTED, &fill->mark, "slot-tile", "[1, n] is a row, [n, 1] a column",
              "slots are filled with tiles of two dimensions, from tensors of at least two");
    choice->failed = true;
    return;
  }
  operand.inner = inner_of(tensor);
  bool engine_fills = filled_by_engine(choice);
  for (unsigned i = 0; i < choice->products->len; i++) /* of operands that are filled with values alone */
    engine_fills |= ir_is_asynchronous_product(choice->products->pdata[i]);
  const char *name = operand.slot->symbol;
  if (engine_fills || !choice->products->len) {
    const Mechanism *engine = engine_of_rows(choice, &operand);
    if (engine) {
      fill_via(choice, &operand, engine);
      ir_remark(choice->context, "%s: filled by %s", name, engine->label);
      return;
    }
  }
  bool packed = number_is_packed(tensor->element); /* threads copy such, but hold none as values */
  if (engine_fills && choice->products->len && !choice->threads && has_whole_tiles(choice) && !packed) {
    ir_remark(choice->context, "%s: loaded by threads, and put into its slot", name);
    fill_by_value(choice, fill);
    return;
  }
  choose_thread_copy(choice, fill, &operand, name);
}

/* Does an engine fill some slots of the kernel and threads others? They run in different roles, and one counts bytes
 * where the others wait for groups. */
static bool is_mixed(const Choice *choice)
{
  unsigned engine = 0;
  bool asynchronous = false; /* a product of slots that are filled with values alone */
  for (unsigned i = 0; i < choice->fills->len; i++)
    engine += ir_is_engine_copy(choice->fills->pdata[i]);
  for (unsigned i = 0; choice->puts->len && i < choice->products->len; i++)
    asynchronous |= ir_is_asynchronous_product(choice->products->pdata[i]);
  return (engine || asynchronous) && engine < MAX(1, choice->fills->len);
}

static void choose_all(Choice *choice)
{
  for (unsigned i = 0; i < choice->products->len && !choice->failed; i++)
    choose_product(choice, choice->products->pdata[i]);
  for (unsigned i = 0; i < choice->fills->len && !choice->failed;) {
    IrOp *fill = choice->fills->pdata[i];
    if (!ir_attribute(fill, ATTR_VIA)) choose_other_fill(choice, fill);
    i += i < choice->fills->len && choice->fills->pdata[i] == fill; /* else it is a value's now */
  }
  if (choice->failed || choice->threads || !is_mixed(choice)) return;
  ir_remark(choice->context, "TMA copies rejected: threads have to fill some of the slots");
  for (unsigned i = 0; i < choice->fills->len; i++) {
    ir_attribute_remove(choice->fills->pdata[i], ATTR_VIA);
    ir_attribute_remove(choice->fills->pdata[i], ATTR_SIZE);
  }
  choice->threads = true;
  choose_all(choice);
}

bool pass_choose_mechanisms(IrModule *module, const IrPassContext *context, GError **error)
{
  g_autoptr(GPtrArray) fills = g_ptr_array_new();
  g_autoptr(GPtrArray) puts = g_ptr_array_new();
  g_autoptr(GPtrArray) products = g_ptr_array_new();
  g_autoptr(GPtrArray) stores = g_ptr_array_new();
  g_autoptr(GPtrArray) channels = g_ptr_array_new();
  g_autoptr(GPtrArray) combinations = g_ptr_array_new();
  Choice choice = {.context = context,
                   .module = module,
                   .kernel = ir_kernel(module),
                   .fills = fills,
                   .puts = puts,
                   .products = products,
                   .stores = stores,
                   .channels = channels,
                   .combinations = combinations,
                   .pingpong = 1,
                   .consumers = 1,
                   .error = error};
  if (!choice.kernel) return true;
  ir_region_visit(choice.kernel->body, collect, &choice);
  give_slots(&choice);
  if (!slots_check_filled(choice.kernel, channels, fills, puts, error) ||
      !slots_check_taken(choice.kernel, channels, error))
    return false;
  choose_all(&choice);
  if (!choice.failed && !filled_by_engine(&choice)) load_out_of_turn(&choice);
  /* once all is chosen: until then a slot that threads have to fill can undo what was */
  OperandParts parts = {context, choice.kernel, choice.tiles};
  if (!choice.failed) divide_operands(&parts, products);
  if (!choice.failed) choose_stores(&choice);
  return !choice.failed;
}
