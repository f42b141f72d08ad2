/* Tensor maps that a kernel's fills take: one for all fills of a tensor that boxes of one shape make up. */
#include "ir/facts.h"
#include "ir/mechanism.h"
#include "ir/passes/split_roles.h"
#include "ir/resources.h"
#include <string.h>

/* How TMA sees a tensor: sides of a box in the tensor's dimension order, the contiguous one cut to the swizzle's width. */
typedef struct {
  const IrValue *tensor;
  int64_t extent[IR_MAX_RANK]; /* of what a fill brings */
  int64_t box[IR_MAX_RANK];
  unsigned swizzle;
} MapShape;

static MapShape map_shape(const Split *split, const IrOp *fill)
{
  MapShape shape = {.tensor = ir_access_base(fill->operands[1])->value};
  const IrType *tensor = &shape.tensor->type;
  const IrOp *slot = ir_slot_of(split->kernel, fill->operands[0], NULL);
  int inner = ir_contiguous_dim(tensor);
  unsigned lead = tensor->rank - slot->declared->rank;
  unsigned bits = slot->declared->layout->swizzle_bits;
  IrType filled = ir_expr_type(split->kernel, fill->operands[0]); /* the tile or a part of it */
  ClusterSharers sharers;
  int divided = cluster_shared_dim(&split->cluster, fill, &sharers);
  const Mechanism *engine = ir_mechanism_of(fill);
  shape.swizzle = bits ? 16u << bits : 0;
  for (unsigned d = 0; d < tensor->rank; d++) {
    int64_t extent = d < lead ? 1 : ir_tile_extent(&filled, d - lead);
    if (d >= lead && (int)(d - lead) == divided) extent /= sharers.count;
    shape.extent[d] = extent;
    if ((int)d == inner && shape.swizzle)
      extent = MIN(extent, (int64_t)number_elements(tensor->element, shape.swizzle));
    if (d >= lead && (int)d != inner) extent = tensor_box_side((unsigned)extent, engine->box_max);
    shape.box[d] = extent;
  }
  return shape;
}

/* Do boxes of the map make up what is filled? */
static bool map_serves(const IrOp *map, const MapShape *shape)
{
  const IrExpr *box = ir_attribute_value(map, ATTR_BOX);
  int64_t side = 0;
  if (map->operands[0]->value != shape->tensor || ir_attribute_int(map, ATTR_SWIZZLE, 0) != shape->swizzle)
    return false;
  for (unsigned d = 0; d < box->n; d++)
    if (!ir_expr_is_int(box->items[d], &side) || side > shape->extent[d] || shape->extent[d] % side)
      return false;
  return true;
}

static bool is_map_name(const Split *split, const IrRegion *region, const char *name)
{
  for (const IrOp *op = region->first; op; op = op->next)
    if (op->code == OP_MAP && g_str_equal(op->symbol, name)) return true;
  for (unsigned i = 0; i < split->kernel->n_parameters; i++)
    if (g_str_has_prefix(name, "map_") &&
        g_str_equal(name + strlen("map_"), split->kernel->parameters[i]->name))
      return true;
  return false;
}

/* The first map of a tensor has its name, others a number behind it. */
static const char *map_name(const Split *split, const IrRegion *region, const char *tensor)
{
  bool first = true;
  for (const IrOp *op = region->first; op; op = op->next)
    first &= op->code != OP_MAP || !g_str_equal(op->operands[0]->value->name, tensor);
  const char *name = arena_printf(split->module->arena, "map_%s", tensor);
  for (unsigned number = 2; !first && is_map_name(split, region, name); number++)
    name = arena_printf(split->module->arena, "map_%s%u", tensor, number);
  return name;
}

static void declare_map(Split *split, IrBuilder *builder, const IrOp *fill)
{
  IrModule *module = split->module;
  if (ir_mechanism_of(fill)->run_multiple) return;
  MapShape shape = map_shape(split, fill);
  const IrOp *known = builder->region->first;
  while (known && !(known->code == OP_MAP && map_serves(known, &shape)))
    known = known->next;
  const char *name = known ? known->symbol : map_name(split, builder->region, shape.tensor->name);
  g_hash_table_insert(split->maps, (gpointer)fill, (gpointer)name);
  if (known) return;
  IrExpr *box[IR_MAX_RANK];
  for (unsigned d = 0; d < shape.tensor->type.rank; d++)
    box[d] = ir_int(module, shape.box[d]);
  builder->mark = fill->mark;
  IrOp *map = ir_emit(builder, OP_MAP, 1, ir_value(module, (IrValue *)shape.tensor));
  map->symbol = name;
  ir_attribute_set(map, ATTR_BOX, ir_list(module, shape.tensor->type.rank, box));
  ir_attribute_set(map, ATTR_SWIZZLE, ir_int(module, shape.swizzle));
}

void role_declare_maps(Split *split, IrBuilder *builder, const GPtrArray *fills)
{
  for (unsigned i = 0; i < fills->len; i++)
    declare_map(split, builder, fills->pdata[i]);
}
