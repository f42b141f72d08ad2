/* Rows of mechanisms: the table, what a description adds to it, and questions to a row. */
#include "ir/mechanism.h"
#include <string.h>

#define WARPS_OF(issue) ((issue) == ISSUE_WARP ? 1 : (issue) == ISSUE_WARPGROUP ? WARPGROUP_WARPS : 0)
#define ACCUMULATOR_OF(issue)                                                                                \
  ((issue) == ISSUE_WARPGROUP ? ACCUMULATOR_WARPGROUP                                                        \
   : (issue) == ISSUE_WARP    ? ACCUMULATOR_WARP                                                             \
                              : ACCUMULATOR_THREAD)
#define IS_PRODUCT(kind) ((kind) == MECHANISM_PRODUCT)

/* What a text that names a mechanism means by it, whatever GPU it is for: nothing is limited. */
static const Mechanism any_gpu[MECHANISM_COUNT] = {
#define MECHANISM(id, name_, kind_, family_, pieces_, issue_, completion_, label_)                           \
  {.name = name_,                                                                                            \
   .family = family_,                                                                                        \
   .pieces = pieces_,                                                                                        \
   .label = label_,                                                                                          \
   .kind = MECHANISM_##kind_,                                                                                \
   .issue = ISSUE_##issue_,                                                                                  \
   .warps = WARPS_OF(ISSUE_##issue_),                                                                        \
   .completion = COMPLETES_##completion_,                                                                    \
   .acc = IS_PRODUCT(MECHANISM_##kind_) ? IN_REGISTERS : 0,                                                  \
   .accumulator = IS_PRODUCT(MECHANISM_##kind_) ? ACCUMULATOR_OF(ISSUE_##issue_) : ACCUMULATOR_NONE,         \
   .groups_in_flight = G_MAXUINT,                                                                            \
   .matrices = 1 | 2 | 4,                                                                                    \
   .transposes = true,                                                                                       \
   .multicasts = true,                                                                                       \
   .swizzles = SWIZZLES_ALL,                                                                                 \
   .alignment = 1,                                                                                           \
   .swizzle_alignment = 1,                                                                                   \
   .address_multiple = 1,                                                                                    \
   .stride_multiple = 1,                                                                                     \
   .row_multiple = 1,                                                                                        \
   .box_max = G_MAXUINT,                                                                                     \
   .rank_max = G_MAXUINT},
#include "ir/mechanisms.def"
#undef MECHANISM
};

/* The description's words (adl/schema.c) for the enumerations, in their order. */
static const char *const issue_words[] = {"thread", "lane", "warp", "warpgroup", "block", "cluster", "grid"};
static const char *const completion_words[] = {
    "result", "thread_group", "warpgroup_group", "barrier_bytes", "barrier_phase", "immediate", "kernel_end"};
static const char *const place_words[] = {"registers", "shared", "shared_peer", "global", "accumulators"};
static const char *const accumulator_words[] = {"", "mma.c", "group.d", "fma.c", "cells"};

/* ---- What a description says ---- */

typedef struct {
  const Gpu *gpu;
  const char *family;
  char path[64];
} Reader;

static const char *path_to(Reader *reader, const char *key)
{
  g_snprintf(reader->path, sizeof reader->path, "%s.%s", reader->family, key);
  return reader->path;
}

static unsigned number(Reader *reader, const char *key, unsigned otherwise)
{
  double fact = gpu_fact(reader->gpu, path_to(reader, key));
  return fact_known(fact) ? (unsigned)fact : otherwise;
}

/* A list of powers of two as the sum of its items. */
static unsigned powers(Reader *reader, const char *key, unsigned otherwise)
{
  unsigned n, sum = 0;
  const double *items = gpu_numbers(reader->gpu, path_to(reader, key), &n);
  for (unsigned i = 0; i < n; i++)
    sum |= (unsigned)items[i];
  return items ? sum : otherwise;
}

static IrPlace places(Reader *reader, const char *key)
{
  unsigned found = 0;
  for (unsigned i = 0; i < G_N_ELEMENTS(place_words); i++)
    if (gpu_lists(reader->gpu, path_to(reader, key), place_words[i])) found |= 1u << i;
  return (IrPlace)found;
}

static int word(Reader *reader, const char *key, const char *const *words, unsigned n)
{
  const char *text = gpu_text(reader->gpu, path_to(reader, key));
  for (unsigned i = 0; text && i < n; i++)
    if (!strcmp(text, words[i])) return (int)i;
  return -1;
}

static void read_product(Reader *reader, Mechanism *row)
{
  int accumulator = word(reader, "layout_acc", accumulator_words, G_N_ELEMENTS(accumulator_words));
  if (accumulator > 0) row->accumulator = (MechanismAccumulator)accumulator;
  row->a = places(reader, "a");
  row->b = places(reader, "b");
  IrPlace acc = places(reader, "acc");
  if (acc) row->acc = acc;
  row->shapes = reader->gpu->products;
  row->n_shapes = reader->gpu->n_products;
  row->groups_in_flight = number(reader, "groups_in_flight", row->groups_in_flight);
  row->blocks = number(reader, "blocks", 1);
}

static void read_transfer(Reader *reader, Mechanism *row)
{
  row->reads = places(reader, "reads");
  row->writes = places(reader, "writes");
  row->sizes = powers(reader, "sizes", 0);
  row->matrices = powers(reader, "matrices", row->matrices);
  row->transposes = number(reader, "transpose", 1) != 0;
  row->multicasts = number(reader, "multicast", 1) != 0;
  if (*row->pieces) row->run_multiple = number(reader, row->pieces, 0);
  row->address_multiple = number(reader, "alignment", 1);
  row->stride_multiple = number(reader, "stride_multiple", 1);
  row->row_multiple = number(reader, "box_row_multiple", 1);
  row->box_max = number(reader, "box_max", row->box_max);
  row->rank_max = number(reader, "rank_max", row->rank_max);
}

static const char *missing(Reader *reader, const Mechanism *row)
{
  if (!*row->family) return NULL;
  bool barrier = row->completion == COMPLETES_BARRIER_BYTES || row->completion == COMPLETES_BARRIER_PHASE;
  if (!gpu_has(reader->gpu, row->family)) return MECHANISM_NOT_LISTED;
  if (barrier && !gpu_has(reader->gpu, "mbarrier")) return "the description lists no mbarriers";
  const char *key = row->kind == MECHANISM_DRAIN && gpu_text(reader->gpu, path_to(reader, "store_completion"))
                        ? "store_completion"
                        : "completion";
  int completion = word(reader, key, completion_words, G_N_ELEMENTS(completion_words));
  int issue = word(reader, "scope", issue_words, G_N_ELEMENTS(issue_words));
  if (*row->pieces && !number(reader, row->pieces, 0)) return MECHANISM_NOT_LISTED;
  bool written_for = completion == (int)row->completion && issue == (int)row->issue;
  return written_for ? NULL : "it is issued or completes in a way no lowering is written for";
}

static void read_row(const Gpu *gpu, Mechanism *row)
{
  Reader reader = {gpu, row->family};
  row->missing = missing(&reader, row);
  if (!*row->family || !gpu_has(gpu, row->family)) return;
  if (row->kind == MECHANISM_PRODUCT)
    read_product(&reader, row);
  else
    read_transfer(&reader, row);
  row->swizzles = powers(&reader, "swizzles", row->swizzles);
  row->alignment = number(&reader, row->kind == MECHANISM_PRODUCT ? "alignment" : "shared_alignment", 1);
  row->swizzle_alignment = number(&reader, "swizzle_alignment", 1);
}

void mechanisms_read(const Gpu *gpu, Mechanism *rows)
{
  memcpy(rows, any_gpu, MECHANISM_COUNT * sizeof *rows);
  for (unsigned i = 0; gpu && i < MECHANISM_COUNT; i++)
    read_row(gpu, &rows[i]);
}

/* ---- Rows of a module ---- */

const Mechanism *ir_mechanisms(const IrModule *module, unsigned *n)
{
  *n = module->mechanisms ? module->n_mechanisms : MECHANISM_COUNT;
  return module->mechanisms ? module->mechanisms : any_gpu;
}

const Mechanism *ir_mechanism_named(const IrModule *module, MechanismKind kind, const char *name)
{
  unsigned n;
  const Mechanism *rows = ir_mechanisms(module, &n);
  for (unsigned i = 0; i < n; i++)
    if (rows[i].kind == kind && !strcmp(rows[i].name, name)) return &rows[i];
  return NULL;
}

const Mechanism *ir_mechanism_usable(const IrModule *module, MechanismKind kind,
                                     MechanismCompletion completion)
{
  unsigned n;
  const Mechanism *rows = ir_mechanisms(module, &n);
  for (unsigned i = 0; i < n; i++)
    if (rows[i].kind == kind && rows[i].completion == completion && !rows[i].missing) return &rows[i];
  return NULL;
}

const Mechanism *ir_mechanism_engine(const IrModule *module, bool maps)
{
  unsigned n;
  const Mechanism *rows = ir_mechanisms(module, &n);
  for (unsigned i = 0; i < n; i++)
    if (rows[i].kind == MECHANISM_FILL && rows[i].completion == COMPLETES_BARRIER_BYTES && !rows[i].missing &&
        !rows[i].run_multiple == maps)
      return &rows[i];
  return NULL;
}

const Mechanism *ir_mechanism_first(const IrModule *module, MechanismKind kind)
{
  unsigned n;
  const Mechanism *rows = ir_mechanisms(module, &n);
  for (unsigned i = 0; i < n; i++)
    if (rows[i].kind == kind) return &rows[i];
  return NULL;
}

const Mechanism *ir_mechanism_issued(const IrModule *module, MechanismKind kind, MechanismIssue issue)
{
  unsigned n;
  const Mechanism *rows = ir_mechanisms(module, &n);
  for (unsigned i = 0; i < n; i++)
    if (rows[i].kind == kind && rows[i].issue == issue) return &rows[i];
  return NULL;
}

void ir_mechanism_set(IrOp *op, const Mechanism *mechanism)
{
  ir_attribute_set(op, ATTR_VIA, ir_name(op->parent->function->module, mechanism->name));
}

const char *mechanism_issue_name(MechanismIssue issue)
{
  return issue_words[issue];
}

/* A copy whose destination is a tensor takes a tile out of shared memory. */
static bool drains(const IrOp *op)
{
  const IrExpr *to = op->operands[0];
  while (to->kind == EXPR_INDEX)
    to = to->items[0];
  return to->kind == EXPR_VALUE && to->value->type.kind == TYPE_TENSOR;
}

bool ir_mechanism_kind(const IrOp *op, MechanismKind *kind)
{
  switch (op->code) {
  case OP_FILL: *kind = MECHANISM_FILL; return true;
  case OP_COPY: *kind = op->n_operands && drains(op) ? MECHANISM_DRAIN : MECHANISM_FILL; return true;
  case OP_STORE: *kind = MECHANISM_DRAIN; return true;
  case OP_MMA: *kind = MECHANISM_PRODUCT; return true;
  case OP_PUT: *kind = MECHANISM_PUT; return true;
  case OP_GET: *kind = MECHANISM_GET; return true;
  case OP_CONVERT: *kind = MECHANISM_CONVERT; return true;
  default: return false;
  }
}

const Mechanism *ir_mechanism_of(const IrOp *op)
{
  MechanismKind kind;
  const IrExpr *via = ir_attribute_value(op, ATTR_VIA);
  if (!via || via->kind != EXPR_NAME || !ir_mechanism_kind(op, &kind)) return NULL;
  return ir_mechanism_named(op->parent->function->module, kind, via->name);
}

/* ---- Questions ---- */

bool mechanism_is_asynchronous(const Mechanism *mechanism)
{
  return mechanism->completion != COMPLETES_RESULT && mechanism->completion != COMPLETES_IMMEDIATE;
}

bool ir_is_grouped_product(const IrOp *op)
{
  const Mechanism *mechanism = op->code == OP_MMA ? ir_mechanism_of(op) : NULL;
  return mechanism && mechanism->completion == COMPLETES_WARPGROUP_GROUP;
}

unsigned ir_product_blocks(const IrOp *mma)
{
  return (unsigned)MAX(1, ir_attribute_int(mma, ATTR_BLOCKS, 1));
}

bool ir_product_is_led(const IrOp *mma)
{
  const Mechanism *mechanism = ir_mechanism_of(mma);
  return mechanism && mechanism->issue == ISSUE_CLUSTER && ir_product_blocks(mma) > 1;
}

unsigned ir_product_divided(const IrOp *mma)
{
  const Mechanism *mechanism = ir_mechanism_of(mma);
  if (ir_product_blocks(mma) <= 1) return 0;
  bool a = mechanism && mechanism->a & IN_PEER_SHARED, b = !mechanism || mechanism->b & IN_PEER_SHARED;
  if (!a || !b) return a ? 1 : b ? 2 : 0;
  const IrFunction *function = mma->parent->function; /* whichever has not as much as the sum */
  IrType sum = ir_expr_type(function, mma->operands[0]), first = ir_expr_type(function, mma->operands[1]);
  return ir_tile_extent(&first, 0) < ir_tile_extent(&sum, 0) ? 1 : 2;
}

bool ir_completes(const IrOp *op, MechanismCompletion completion)
{
  const Mechanism *mechanism = ir_mechanism_of(op);
  return mechanism && mechanism->completion == completion;
}

bool ir_is_asynchronous_product(const IrOp *op)
{
  const Mechanism *mechanism = op->code == OP_MMA ? ir_mechanism_of(op) : NULL;
  return mechanism && mechanism_is_asynchronous(mechanism);
}

bool ir_is_grouped_copy(const IrOp *op)
{
  const Mechanism *mechanism = op->code == OP_COPY ? ir_mechanism_of(op) : NULL;
  return mechanism && mechanism->kind == MECHANISM_FILL && mechanism->completion == COMPLETES_THREAD_GROUP;
}

bool ir_is_engine_copy(const IrOp *op)
{
  const Mechanism *mechanism =
      op->code == OP_COPY || op->code == OP_FILL || op->code == OP_STORE ? ir_mechanism_of(op) : NULL;
  if (!mechanism) return false;
  return mechanism->kind == MECHANISM_FILL ? mechanism->completion == COMPLETES_BARRIER_BYTES
                                           : mechanism_is_asynchronous(mechanism);
}

bool ir_meets(const IrOp *op)
{
  const Mechanism *mechanism = ir_mechanism_of(op);
  return mechanism && mechanism->issue == ISSUE_BLOCK;
}

const GpuProduct *mechanism_product(const Mechanism *mechanism, NumberType a, NumberType b, NumberType acc)
{
  for (unsigned i = 0; i < mechanism->n_shapes; i++) {
    const GpuProduct *shape = &mechanism->shapes[i];
    if (shape->a == a && shape->b == b && shape->acc == acc && !strcmp(shape->family, mechanism->family))
      return shape;
  }
  return NULL;
}

unsigned swizzle_widest(unsigned swizzles, unsigned row_bytes)
{
  for (unsigned swizzle = 128; swizzle >= 32; swizzle /= 2)
    if (swizzles & swizzle && row_bytes % swizzle == 0) return swizzle;
  return 0;
}

unsigned mechanism_swizzles(const Mechanism *writer, const Mechanism *reader, NumberType type)
{
  unsigned swizzles = SWIZZLES_ALL;
  if (writer) swizzles &= writer->swizzles;
  if (reader) swizzles &= reader->swizzles;
  for (unsigned width = 32; writer && width <= 128; width *= 2)
    if (number_elements(type, width) > writer->box_max || width % writer->row_multiple) swizzles &= ~width;
  return swizzles;
}

unsigned mechanism_size(const Mechanism *mechanism, unsigned bytes)
{
  for (unsigned size = MECHANISM_SIZES_MOST; size; size /= 2)
    if (size <= bytes && (!mechanism->sizes || mechanism->sizes & size)) return size;
  return 0;
}

unsigned mechanism_matrices(const Mechanism *mechanism, unsigned wanted)
{
  while (wanted && !(mechanism->matrices & wanted))
    wanted /= 2;
  return wanted;
}

unsigned tensor_box_side(unsigned extent, unsigned most)
{
  if (extent <= most) return extent;
  for (unsigned side = most / SWIZZLE_ROWS * SWIZZLE_ROWS; side; side -= SWIZZLE_ROWS)
    if (extent % side == 0) return side;
  return 0;
}

IrPlace ir_place_of(const IrType *type)
{
  if (type->kind == TYPE_TENSOR) return IN_GLOBAL;
  if (type->kind != TYPE_TILE || !type->layout) return IN_REGISTERS;
  if (layout_size(type->layout, PLACE_CELL) > 1) return IN_ACCUMULATORS;
  return layout_size(type->layout, PLACE_OFFSET) > 1 ? IN_SHARED : IN_REGISTERS;
}

static void note_id(IrOp *op, void *data)
{
  int64_t *next = data, id;
  const IrExpr *ids = ir_attribute_value(op, ATTR_IDS), *one = ir_attribute_value(op, ATTR_ID);
  for (unsigned i = 0; ids && i < ids->n; i++)
    if (ir_expr_is_int(ids->items[i], &id)) *next = MAX(*next, id + 1);
  if (one && ir_expr_is_int(one, &id)) *next = MAX(*next, id + 1);
}

int64_t named_barrier_free(const IrFunction *kernel)
{
  int64_t next = NAMED_BARRIER_FIRST;
  ir_region_visit(kernel->body, note_id, &next);
  return next;
}
