/* choose_mechanisms: which of the GPU's mechanisms moves each tile and takes each product.
 *
 * needs  TILE, instantiated: no parameters, calls or `when`
 * gives  `via` on every mma (group, warp, fma) and fill (tensor, async, plain), `size` on async and plain
 *        fills; on stores of a group product's results `via tensor` where the copy engine may take them, else
 *        `via shared` where threads may write rows of them out of shared memory; `overlay` on those whose
 *        staging has only room in the slots of the kernel's channel
 * breaks nothing
 *
 * Only what the description lists is considered, best first:
 *   tensor copies + group products   four warps multiply straight from shared memory
 *   async copies + warp products     each thread copies 4, 8 or 16 bytes; fragments are loaded
 *   plain copies + warp products     when no 4 bytes of the tensor are known to be aligned
 *   ... + scalar products            when no matrix product takes the types
 * A rejected mechanism leaves a remark that says why. */
#include "ir/facts.h"
#include "ir/pass.h"
#include "ir/resources.h"
#include "ir/staging.h"

#define MAX_FILLS 2 /* of one tile */

typedef struct {
  IrOp *slot;            /* the operand's tile in the channel */
  IrOp *fill[MAX_FILLS]; /* what fills it: all of it, or parts side by side */
  unsigned n;
  const IrType *tensor; /* of the first; the others have its element type and contiguous dimension */
  int inner;            /* dimension of the tile that is contiguous in the tensor: 0, 1, or -1 */
} Operand;

typedef struct {
  const IrPassContext *context;
  IrModule *module;
  IrFunction *kernel;
  GPtrArray *fills, *products, *stores, *channels, *combinations;
  unsigned alternate; /* instances that take tiles in turn, each with staging of its own */
  const IrOp *tiles;  /* the walk, if there is one */
  GError **error;
  bool failed;
} Choice;

static void collect(IrOp *op, void *data)
{
  Choice *choice = data;
  if (op->code == OP_FILL) g_ptr_array_add(choice->fills, op);
  if (op->code == OP_MMA) g_ptr_array_add(choice->products, op);
  if (op->code == OP_STORE) g_ptr_array_add(choice->stores, op);
  if (op->code == OP_CHANNEL) g_ptr_array_add(choice->channels, op);
  if (op->code == OP_TILES) {
    choice->alternate = (unsigned)ir_attribute_int(op, ATTR_ALTERNATE, 1);
    choice->tiles = op;
  }
  if (op->code == OP_COMBINE) g_ptr_array_add(choice->combinations, op);
}

static const IrType *tensor_of(const IrExpr *access)
{
  const IrExpr *base = ir_access_base(access);
  return base->kind == EXPR_VALUE && base->value->type.kind == TYPE_TENSOR ? &base->value->type : NULL;
}

/* Dimension of a fill's tile that is contiguous in its tensor, or -1. */
static int inner_of(const IrType *tensor)
{
  int lead = (int)tensor->rank - 2, inner = ir_contiguous_dim(tensor) - lead;
  return inner < 0 || lead < 0 ? -1 : inner;
}

/* The fills of a slot and the orientation they bring. */
static bool operand_find(Choice *choice, const IrExpr *access, Operand *operand)
{
  operand->slot = ir_slot_of(choice->kernel, access, NULL);
  operand->n = 0;
  if (!operand->slot) return false;
  for (unsigned i = 0; i < choice->fills->len; i++) {
    IrOp *fill = choice->fills->pdata[i];
    if (ir_slot_of(choice->kernel, fill->operands[0], NULL) != operand->slot) continue;
    const IrType *tensor = tensor_of(fill->operands[1]);
    if (!tensor || operand->n == MAX_FILLS) return false;
    if (!operand->n) operand->tensor = tensor;
    if (tensor->element != operand->tensor->element || inner_of(tensor) != inner_of(operand->tensor))
      return false;
    operand->fill[operand->n++] = fill;
  }
  if (!operand->n) return false;
  operand->inner = inner_of(operand->tensor);
  return true;
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

/* Boxes of a part hold whole rows of the swizzle and whole groups of the 8 rows after which it repeats. */
static bool part_fits_swizzle(const Choice *choice, const Operand *operand, const IrOp *fill)
{
  unsigned bytes = number_bytes(operand->tensor->element), inner = (unsigned)operand->inner;
  unsigned width = filled_extent(choice, fill, operand->inner) * bytes,
           whole = tile_extent(operand->slot, inner) * bytes,
           rows = filled_extent(choice, fill, 1 - operand->inner);
  if (width != whole && width % MAX(1, layout_widest_swizzle(whole))) return false;
  return rows == tile_extent(operand->slot, 1 - inner) || rows % 8 == 0;
}

/* Why the copy engine cannot fill this operand, or NULL if it can. */
static const char *tensor_copy_refusal(Choice *choice, const Operand *operand)
{
  const Gpu *gpu = choice->context->gpu;
  if (!gpu_has(gpu, "copy_tensor") || !gpu_has(gpu, "memory_barrier"))
    return "the description lists no tensor copies";
  if (operand->inner < 0) return "no dimension of the tensor's tile is contiguous";
  for (unsigned i = 0; i < operand->n; i++) {
    const IrOp *fill = operand->fill[i];
    if (!ir_tensor_map_possible(choice->kernel, tensor_of(fill->operands[1])))
      return "base or strides are not known to be multiples of 16 bytes";
    if (filled_extent(choice, fill, operand->inner) * number_bytes(operand->tensor->element) % 32)
      return "the tile's contiguous extent is not a multiple of 32 bytes";
    if (!part_fits_swizzle(choice, operand, fill)) return "a part of the tile cuts through its swizzle";
  }
  return NULL;
}

/* Can A pass through registers (load_operands), in which its elements change places on the way? */
static bool across_registers(const GpuProduct *product)
{
  unsigned bytes = number_bytes(product->a);
  return product->a_from_registers && (bytes == 1 || bytes == 4);
}

/* Why a group product cannot be taken, or NULL if it can. */
static const char *group_refusal(Choice *choice, const IrOp *mma, const Operand *a, const Operand *b)
{
  const Gpu *gpu = choice->context->gpu;
  if (!gpu_has(gpu, "product_group")) return "the description lists no group products";
  const IrType *acc = &mma->operands[0]->value->type;
  const GpuProduct *product =
      gpu_product(gpu, "product_group", a->tensor->element, b->tensor->element, acc->element);
  if (!product) return "no group product takes these types";
  unsigned m = (unsigned)ir_tile_extent(acc, 0), n = (unsigned)ir_tile_extent(acc, 1),
           k = tile_extent(a->slot, 1);
  bool legal_n = false;
  for (unsigned i = 0; i < product->n_count; i++)
    legal_n |= product->n[i] == n;
  if (m % product->m || !legal_n || k % product->k)
    return "the tile is no multiple of a group product's shape";
  if (a->inner != 1 && !product->a_transposed && !across_registers(product))
    return "group products of this type need A contiguous along k";
  if (b->inner != 0 && !product->b_transposed) return "group products of this type need B contiguous along k";
  return NULL;
}

static void set_name(IrOp *op, IrAttributeKey key, const char *name, IrModule *module)
{
  ir_attribute_set(op, key, ir_name(module, name));
}

/* Bytes one thread may copy at once for this fill. */
static unsigned fill_bytes(Choice *choice, const Operand *operand, const IrOp *fill)
{
  const IrExpr *access = fill->operands[1];
  IrExpr *corner[IR_MAX_RANK];
  for (unsigned d = 0; d + 1 < access->n && d < IR_MAX_RANK; d++)
    corner[d] = access->items[d + 1];
  unsigned extent = operand->inner < 0 ? 1 : filled_extent(choice, fill, operand->inner);
  return ir_access_vector(choice->kernel, tensor_of(access), corner, extent) *
         number_bytes(operand->tensor->element);
}

/* The same for all fills of an operand, so that one mechanism serves them. */
static unsigned copy_bytes(Choice *choice, const Operand *operand)
{
  unsigned bytes = fill_bytes(choice, operand, operand->fill[0]);
  for (unsigned i = 1; i < operand->n; i++)
    bytes = MIN(bytes, fill_bytes(choice, operand, operand->fill[i]));
  return bytes;
}

static void fill_via(Choice *choice, const Operand *operand, const char *mechanism)
{
  for (unsigned i = 0; i < operand->n; i++)
    set_name(operand->fill[i], ATTR_VIA, mechanism, choice->module);
}

/* async if the bytes reach the smallest copy the GPU has (4), else plain; sets `via` and `size`. */
static void choose_thread_copy(Choice *choice, Operand *operand, const char *tile_name)
{
  unsigned bytes = copy_bytes(choice, operand);
  bool async = gpu_has(choice->context->gpu, "copy_async") && bytes >= 4;
  if (!async)
    ir_remark(choice->context, "%s: async copies rejected: %s", tile_name,
              bytes < 4 ? "no 4 bytes are known to be aligned" : "the description lists none");
  fill_via(choice, operand, async ? "async" : "plain");
  for (unsigned i = 0; i < operand->n; i++) {
    ir_attribute_set(operand->fill[i], ATTR_SIZE, ir_int(choice->module, bytes));
    /* ptxas 13.0.88 can put the descriptor of a thread's copy that has a cache policy into an odd uniform
     * register (LDGSTS [R+UR], desc[UR1]), which a GPU refused as an illegal instruction */
    ir_attribute_remove(operand->fill[i], ATTR_CACHE);
  }
  ir_remark(choice->context, "%s: filled by %s copies of %u bytes", tile_name, async ? "async" : "plain",
            bytes);
}

static void choose_product(Choice *choice, IrOp *mma)
{
  Operand a, b;
  if (!operand_find(choice, mma->operands[1], &a) || !operand_find(choice, mma->operands[2], &b)) {
    error_set(choice->error, ERROR_UNSUPPORTED, &mma->mark, "mma-operands",
              "both must be tiles of a channel that a fill of the kernel fills",
              "an operand of this product is not filled from a tensor");
    choice->failed = true;
    return;
  }
  const char *a_refusal = tensor_copy_refusal(choice, &a), *b_refusal = tensor_copy_refusal(choice, &b);
  const char *refusal = group_refusal(choice, mma, &a, &b);
  if (!refusal) refusal = a_refusal ? a_refusal : b_refusal;
  if (!refusal) {
    set_name(mma, ATTR_VIA, "group", choice->module);
    fill_via(choice, &a, "tensor");
    fill_via(choice, &b, "tensor");
    ir_remark(choice->context, "products: group, from shared memory filled by tensor copies");
    if (a.inner != 1 && number_bytes(a.tensor->element) != 2)
      ir_remark(choice->context, "products: A lies across k and passes through registers");
    return;
  }
  ir_remark(choice->context, "products: tensor copies + group products rejected: %s", refusal);
  const IrType *acc = &mma->operands[0]->value->type;
  const GpuProduct *product =
      gpu_product(choice->context->gpu, "product_warp", a.tensor->element, b.tensor->element, acc->element);
  bool warp = product && ir_tile_extent(acc, 0) % product->m == 0 && ir_tile_extent(acc, 1) % 8 == 0 &&
              tile_extent(a.slot, 1) % product->k == 0;
  if (!warp)
    ir_remark(choice->context, "products: warp products rejected: %s",
              product ? "the tile is no multiple of their shape" : "none takes these types");
  set_name(mma, ATTR_VIA, warp ? "warp" : "fma", choice->module);
  ir_remark(choice->context, "products: %s", warp ? "warp, from fragments" : "scalar multiply-adds");
  choose_thread_copy(choice, &a, "A");
  choose_thread_copy(choice, &b, "B");
}

/* ---- Stores ---- */

/* Blocks that share the tile at hand. */
static int64_t sharing_blocks(const IrOp *op)
{
  while (op && op->code != OP_TILES)
    op = op->parent ? op->parent->owner : NULL;
  return op ? ir_attribute_int(op, ATTR_SPLIT, 1) : 1;
}

static uint64_t ring_bytes(const Choice *choice)
{
  uint64_t bytes = 0;
  for (unsigned i = 0; i < choice->channels->len; i++) {
    const IrOp *channel = choice->channels->pdata[i];
    uint64_t slot_bytes = 0;
    for (const IrOp *slot = channel->regions[0]->first; slot; slot = slot->next)
      slot_bytes += (uint64_t)ir_tile_elements(slot->declared) * number_bytes(slot->declared->element);
    bytes += slot_bytes * (uint64_t)ir_attribute_int(channel, ATTR_SLOTS, 1);
  }
  return bytes;
}

/* Shared memory that is spoken for: slots, and what combine_blocks will exchange. */
static uint64_t bytes_taken(const Choice *choice)
{
  uint64_t parts = 0, overlaid = 0;
  for (unsigned i = 0; i < choice->combinations->len; i++) {
    const IrOp *op = choice->combinations->pdata[i];
    const IrType *part = &op->results[0]->type;
    uint64_t all =
        (uint64_t)((sharing_blocks(op) - 1) * ir_tile_elements(part)) * number_bytes(part->element);
    *(ir_attribute_int(op, ATTR_REUSE, 0) > 0 ? &overlaid : &parts) += all;
  }
  return parts + MAX(ring_bytes(choice), overlaid);
}

/* Where a block has one tile (under a budget of SMs all blocks walk), nothing fills the slots again behind
 * its last step, so results may be staged there; so many bytes of them are already. */
static bool may_overlay(const Choice *choice, uint64_t overlaid, uint64_t staging)
{
  const IrOp *tiles = choice->tiles;
  bool walks = choice->context->sm_budget || !tiles || ir_attribute_int(tiles, ATTR_PERSISTENT, 0);
  bool once = !walks && choice->alternate <= 1 && ir_attribute_int(tiles, ATTR_SPLIT, 1) <= 1 &&
              ir_attribute_int(tiles, ATTR_STREAM, 1) <= 1;
  return once && choice->channels->len == 1 && !choice->combinations->len &&
         overlaid + staging <= ring_bytes(choice);
}

/* Bytes that stores take: of their own, and of slots. */
typedef struct {
  uint64_t used, overlaid;
} Staged;

/* Why the copy engine cannot write a tensor, or NULL. */
static const char *tensor_store_refusal(const Choice *choice, const IrType *tensor)
{
  if (!ir_tensor_map_possible(choice->kernel, tensor))
    return "base or strides are not known to be multiples of 16 bytes";
  /* the engine writes whole pieces of 16 bytes: what lies behind the last element is not always its row's */
  unsigned piece = 16 / number_bytes(tensor->element);
  if (ir_known_multiple(choice->kernel, tensor->dims[ir_contiguous_dim(tensor)], piece) < piece)
    return "rows are not known to end with 16 bytes";
  return NULL;
}

/* Why a store cannot pass through shared memory, or NULL; its staging tiles are added to the bytes taken. */
static const char *staging_refusal(Choice *choice, IrOp *store, Staged *staged)
{
  const IrType *tensor = tensor_of(store->operands[0]);
  if (!tensor || store->operands[1]->kind != EXPR_VALUE || ir_attribute(store, ATTR_WHERE))
    return "it is no plain store of a tile";
  const IrType *tile = &store->operands[1]->value->type;
  if (tile->kind != TYPE_TILE || tile->rank != 2 || tensor->rank < 2 || tile->element != tensor->element)
    return "it is no plain store of a tile";
  int inner = ir_contiguous_dim(tensor);
  bool across = inner == (int)tensor->rank - 2;
  if (!across && inner != (int)tensor->rank - 1) return "neither rows nor columns are contiguous";
  unsigned rows = (unsigned)ir_tile_extent(tile, 0), columns = (unsigned)ir_tile_extent(tile, 1);
  if (rows > 256 || number_bits(tensor->element) % 8) return "a copy has no such rows";
  unsigned bytes = number_bytes(tensor->element), all = rows * choice->alternate;
  uint64_t staging = across ? staging_bytes_across(all, columns, bytes) : staging_bytes(all, columns, bytes);
  if (!staging && across) return "few rows of the tensor go straight from registers";
  if (!staging) return "the tile's rows divide into no parts of 16 bytes";
  /* threads write rows of a tile, none of its columns */
  if (across && tensor_store_refusal(choice, tensor)) return tensor_store_refusal(choice, tensor);
  uint64_t most = choice->context->gpu->shared_per_block - RESERVED_SHARED_BYTES;
  bool narrow = choice->alternate > 1 && !across && !tensor_store_refusal(choice, tensor);
  if (staged->used + staging > most && narrow) {
    uint64_t least = staging_bytes_least(all, columns, bytes);
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

/* An earlier store of a tile of the same type to the same tensor. */
static const IrOp *same_store(const Choice *choice, unsigned index)
{
  const IrOp *store = choice->stores->pdata[index];
  const IrExpr *base = ir_access_base(store->operands[0]);
  for (unsigned i = 0; i < index && base->kind == EXPR_VALUE; i++) {
    const IrOp *other = choice->stores->pdata[i];
    const IrExpr *stored = ir_access_base(other->operands[0]);
    if (stored->kind != EXPR_VALUE || stored->value != base->value) continue;
    IrType a = ir_expr_type(choice->kernel, store->operands[1]),
           b = ir_expr_type(choice->kernel, other->operands[1]);
    if (ir_type_equal(&a, &b)) return other;
  }
  return NULL;
}

static void choose_stores(Choice *choice)
{
  bool group = false;
  for (unsigned i = 0; i < choice->products->len; i++)
    group |= ir_attribute_is(choice->products->pdata[i], ATTR_VIA, "group");
  if (!group) return; /* elsewhere the threads that compute are also those that copy */
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
    const char *refusal = staging_refusal(choice, store, &staged_bytes);
    bool staged = !refusal;
    if (staged) refusal = tensor_store_refusal(choice, tensor_of(store->operands[0]));
    if (staged) set_name(store, ATTR_VIA, refusal ? "shared" : "tensor", choice->module);
    ir_remark(choice->context, "stores of %s: %s%s", name,
              refusal ? "tensor copies rejected: " : "tensor copies", refusal ? refusal : "");
  }
}

bool pass_choose_mechanisms(IrModule *module, const IrPassContext *context, GError **error)
{
  g_autoptr(GPtrArray) fills = g_ptr_array_new();
  g_autoptr(GPtrArray) products = g_ptr_array_new();
  g_autoptr(GPtrArray) stores = g_ptr_array_new();
  g_autoptr(GPtrArray) channels = g_ptr_array_new();
  g_autoptr(GPtrArray) combinations = g_ptr_array_new();
  Choice choice = {.context = context,
                   .module = module,
                   .kernel = ir_kernel(module),
                   .fills = fills,
                   .products = products,
                   .stores = stores,
                   .channels = channels,
                   .combinations = combinations,
                   .alternate = 1,
                   .error = error};
  if (!choice.kernel) return true;
  ir_region_visit(choice.kernel->body, collect, &choice);
  for (unsigned i = 0; i < products->len && !choice.failed; i++)
    choose_product(&choice, products->pdata[i]);
  if (!choice.failed) choose_stores(&choice);
  return !choice.failed;
}
