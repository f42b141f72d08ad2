/* A launch's part of the plan: what its variants' kernels are given, as expressions over the graph's symbols. */
#include "generator/compile/plan.h"
#include "ir/facts.h"
#include <string.h>

static const char *file_name(Plan *plan, const char *kernel, const char *suffix)
{
  return arena_printf(plan->arena, "%s.%s", kernel, suffix);
}

/* Order in which TMA counts a tensor's dimensions: the contiguous one, then the others from last
 * to first. */
static unsigned engine_order(const IrType *tensor, unsigned *order)
{
  unsigned n = 0, inner = tensor->rank - 1;
  int64_t stride;
  for (unsigned d = 0; d < tensor->rank; d++)
    if (tensor->strides[d] && ir_expr_is_int(tensor->strides[d], &stride) && stride == 1) inner = d;
  order[n++] = inner;
  for (unsigned d = tensor->rank; d-- > 0;)
    if (d != inner) order[n++] = d;
  return n;
}

#define MAP_STRIDE 16 /* bytes: strides of tensor maps are multiples of it */

/* What the L2 cache fetches when a box misses. Boxes whose rows begin beside multiples of a sector
 * are loaded a sixth slower with more than a line (docs/performance-log.md). */
static unsigned promotion_of(const PlanTensorMap *map)
{
  int64_t stride;
  for (unsigned i = 0; i + 1 < map->rank; i++)
    if (symbolic_is_constant(map->strides[i], &stride) && stride % 32 != 0) return 128;
  return 256;
}

/* The stride or, if it may be no multiple of what TMA steps in, the next one. */
static const Symbolic *legal_stride(const KernelBuild *build, Arena *arena, const Symbolic *bytes)
{
  if (symbolic_divisible(bytes, MAP_STRIDE, &build->graph->facts)) return bytes;
  const Symbolic *step = symbolic_constant(arena, MAP_STRIDE);
  return symbolic_mul(arena, step, symbolic_ceil_div(arena, bytes, step));
}

/* Of so many elements, which take whole bytes. */
static const Symbolic *bytes_of(Arena *arena, NumberType type, const Symbolic *elements)
{
  if (number_is_packed(type)) return symbolic_ceil_div(arena, elements, symbolic_constant(arena, 2));
  return symbolic_mul(arena, elements, symbolic_constant(arena, number_bytes(type)));
}

static bool fill_map(const KernelBuild *build, Plan *plan, const IrOp *op, PlanTensorMap *map)
{
  const IrType *tensor = &op->operands[0]->value->type;
  const IrExpr *box = ir_attribute_value(op, ATTR_BOX);
  unsigned order[IR_MAX_RANK];
  const bool packed = number_is_packed(tensor->element); /* the engine moves bytes */
  const Symbolic *two = symbolic_constant(plan->arena, 2);
  map->rank = engine_order(tensor, order);
  map->mode = ir_map_is_tiled(op) ? PLAN_MAP_TILED : PLAN_MAP_IM2COL;
  map->element = packed ? NUMBER_U8 : tensor->element;
  map->swizzle = (unsigned)ir_attribute_int(op, ATTR_SWIZZLE, 0);
  for (unsigned i = 0; i < map->rank; i++) {
    unsigned d = order[i];
    int64_t one;
    map->box[i] = kernel_symbolic(build, plan->arena, box->items[d]);
    map->element_strides[i] = 1;
    map->dims[i] = kernel_symbolic(build, plan->arena, tensor->dims[d]);
    if (!map->box[i] || !map->dims[i]) return false;
    if (packed && i == 0) {
      map->box[i] = symbolic_ceil_div(plan->arena, map->box[i], two);
      map->dims[i] = symbolic_ceil_div(plan->arena, map->dims[i], two);
    }
    int64_t least, most; /* an empty tensor is never read, but the engine takes no extent of 0 */
    symbolic_range(map->dims[i], &build->graph->facts, &least, &most);
    if (least < 1)
      map->dims[i] =
          symbolic_binary(plan->arena, SYMBOLIC_MAX, map->dims[i], symbolic_constant(plan->arena, 1));
    if (i == 0) continue;
    const Symbolic *stride = kernel_symbolic(build, plan->arena, tensor->strides[d]);
    map->strides[i - 1] = bytes_of(plan->arena, tensor->element, stride);
    /* a dimension of extent 1 is never stepped along; its stride must only be legal, so it takes its
     * neighbour's */
    bool single = ir_expr_is_int(tensor->dims[d], &one) && one == 1;
    if (single && i > 1) map->strides[i - 1] = map->strides[i - 2];
    if (single && i == 1) map->strides[0] = legal_stride(build, plan->arena, map->strides[0]);
  }
  map->l2_promotion = promotion_of(map);
  return true;
}

/* The workspace's tensor behind a kernel's tensor parameter that no graph knows (combine_streams, or the
 * template's own), or NULL. */
static const PlanTensor *shared_tensor(const KernelBuild *build, Plan *plan, const IrValue *tensor)
{
  static const IrAttributeKey keys[] = {ATTR_PARTS, ATTR_FLAGS};
  for (unsigned i = 0; i < G_N_ELEMENTS(keys); i++) {
    const IrExpr *name = ir_launch_get(build->kernel, keys[i]);
    int64_t rows, columns;
    if (!name || !name->name || !g_str_equal(name->name, tensor->name) ||
        !ir_expr_is_int(tensor->type.dims[0], &rows) || !ir_expr_is_int(tensor->type.strides[0], &columns))
      continue;
    PlanTensor *shared = plan_share_tensor(plan, tensor->name, tensor->type.element, rows, columns);
    shared->zero = keys[i] == ATTR_FLAGS;
    return shared;
  }
  return NULL;
}

static bool fill_arguments(const KernelBuild *build, Plan *plan, PlanVariant *variant, GError **error)
{
  unsigned n;
  const IrArgument *arguments = ir_kernel_arguments(build->kernel, &n);
  for (unsigned i = 0; i < n; i++) {
    const IrArgument *argument = &arguments[i];
    const GraphTensor *tensor =
        argument->tensor ? g_hash_table_lookup(build->tensors, argument->tensor->name) : NULL;
    const PlanTensor *planned = tensor             ? plan_tensor(plan, tensor->name)
                                : argument->tensor ? shared_tensor(build, plan, argument->tensor)
                                                   : NULL;
    const Symbolic *value = NULL, *offset = NULL;
    bool ok = true;
    if (tensor && tensor->begins && !symbolic_equals(tensor->begins, 0))
      offset = bytes_of(plan->arena, tensor->type, tensor->begins);
    switch (argument->kind) {
    case ARGUMENT_POINTER:
      ok = planned && plan_add_pointer(plan, variant, argument->name, planned, offset);
      break;
    case ARGUMENT_SCALAR:
      value = kernel_symbolic(build, plan->arena, ir_dim(build->module, argument->name));
      ok = value && plan_add_scalar(plan, variant, argument->name, argument->type, value);
      break;
    case ARGUMENT_MAP: {
      PlanArgument *added =
          planned ? plan_add_tensor_map(plan, variant, argument->name, planned, offset) : NULL;
      ok = added && fill_map(build, plan, argument->map, &added->map);
      break;
    }
    }
    if (!ok) {
      error_set(error, ERROR_INTERNAL, NULL, "argument", NULL,
                "argument '%s' of kernel '%s' has no launch expression", argument->name, build->kernel->name);
      return false;
    }
  }
  return true;
}

bool compile_fill_variant(Plan *plan, PlanLaunch *launch, const KernelBuild *build,
                          const CompiledKernel *kernel, GError **error)
{
  PlanVariant *variant = plan_add_variant(plan, launch, kernel->name, kernel->entry);
  variant->text = file_name(plan, kernel->name, kernel->backend->suffix);
  variant->cubin = file_name(plan, kernel->name, "cubin");
  variant->guard = build->choice->guard;
  variant->note = arena_printf(plan->arena, "template %s, tile %s, %s", kernel->template_name,
                               kernel->tile_text, kernel->mechanism);
  variant->shared = kernel->shared_bytes;
  variant->waits = kernel->waits;
  variant->together = kernel->together;
  variant->block[0] = kernel->threads;
  variant->cluster[0] = kernel->cluster;
  const IrExpr *grid = ir_launch_get(build->kernel, ATTR_GRID);
  for (unsigned d = 0; grid && d < 3 && d < grid->n; d++) {
    variant->grid[d] = kernel_symbolic(build, plan->arena, grid->items[d]);
    if (!variant->grid[d]) {
      error_set(error, ERROR_INTERNAL, NULL, "grid", NULL, "the grid of kernel '%s' has no launch expression",
                kernel->name);
      return false;
    }
  }
  return fill_arguments(build, plan, variant, error);
}

static PlanVariant *copy_variant(Plan *plan, PlanLaunch *launch, const PlanVariant *like)
{
  PlanVariant *variant = plan_add_variant(plan, launch, like->kernel, like->entry);
  *variant = *like;
  variant->arguments =
      arena_memdup(plan->arena, like->arguments, like->n_arguments * sizeof *like->arguments);
  return variant;
}

void compile_repeat_variant(Plan *plan, PlanLaunch *launch, const PlanVariant *like, const Symbolic *guard)
{
  copy_variant(plan, launch, like)->guard = guard;
}

/* ---- The launch of an operator that has another's kernels ---- */

static const char *counterpart(const GPtrArray *from, const GPtrArray *to, const char *name)
{
  for (unsigned i = 0; i < from->len; i++)
    if (!strcmp(from->pdata[i], name)) return to->pdata[i];
  return name;
}

typedef struct {
  Arena *arena;
  const OperatorKey *from, *to;
  bool changed;
} Renaming;

static const char *new_name(const Symbolic *leaf, const Renaming *renaming)
{
  bool symbol = leaf->kind == SYMBOLIC_SYMBOL;
  return counterpart(symbol ? renaming->from->symbols : renaming->from->tensors,
                     symbol ? renaming->to->symbols : renaming->to->tensors, leaf->name);
}

static void note_change(const Symbolic *leaf, void *data)
{
  Renaming *renaming = data;
  renaming->changed |= strcmp(new_name(leaf, renaming), leaf->name) != 0;
}

static const Symbolic *replace_name(const Symbolic *leaf, void *data)
{
  const Renaming *renaming = data;
  const char *name = new_name(leaf, renaming);
  return leaf->kind == SYMBOLIC_SYMBOL ? symbolic_symbol(renaming->arena, name)
                                       : symbolic_align(renaming->arena, name);
}

const Symbolic *compile_rename(Arena *arena, const Symbolic *expression, const OperatorKey *from,
                               const OperatorKey *to)
{
  Renaming renaming = {arena, from, to, false};
  if (expression) symbolic_visit(expression, note_change, &renaming);
  return renaming.changed ? symbolic_substitute(arena, expression, replace_name, &renaming) : expression;
}

void compile_repeat_launch(Plan *plan, PlanLaunch *launch, const OperatorKey *key, const PlanLaunch *like,
                           const OperatorKey *like_key)
{
  for (unsigned i = 0; i < like->n_variants; i++) {
    PlanVariant *variant = copy_variant(plan, launch, like->variants[i]);
    variant->guard = compile_rename(plan->arena, variant->guard, like_key, key);
    for (unsigned d = 0; d < 3; d++)
      variant->grid[d] = compile_rename(plan->arena, variant->grid[d], like_key, key);
    for (unsigned j = 0; j < variant->n_arguments; j++) {
      PlanArgument *argument = &variant->arguments[j];
      PlanTensorMap *map = &argument->map;
      const Symbolic **expressions[] = {&argument->offset, &argument->value};
      for (unsigned k = 0; k < G_N_ELEMENTS(expressions); k++)
        *expressions[k] = compile_rename(plan->arena, *expressions[k], like_key, key);
      for (unsigned d = 0; d < map->rank; d++) {
        map->dims[d] = compile_rename(plan->arena, map->dims[d], like_key, key);
        map->box[d] = compile_rename(plan->arena, map->box[d], like_key, key);
        if (d) map->strides[d - 1] = compile_rename(plan->arena, map->strides[d - 1], like_key, key);
      }
      if (argument->tensor)
        argument->tensor =
            plan_tensor(plan, counterpart(like_key->tensors, key->tensors, argument->tensor->name));
    }
  }
}
