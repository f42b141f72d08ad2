/* Through which shared tile the warps meet that have a row of a tile together. */
#include "ir/passes/place_exchanges.h"
#include "ir/passes/assign_layouts.h"
#include "ir/sorting.h"

static bool crosses_warps(const Layout *layout, unsigned dim)
{
  for (unsigned i = 0; i < layout->n; i++)
    if (layout->modes[i].place == PLACE_WARP && layout->modes[i].dim == (int)dim && layout->modes[i].size > 1)
      return true;
  return false;
}

/* The widest of the elements that are combined, in the form in which a register holds it. */
static NumberType exchanged_element(const IrOp *reduce)
{
  NumberType widest = reduce->operands[0]->value->type.element;
  for (unsigned i = 1; i < reduce->n_operands; i++) {
    NumberType element = reduce->operands[i]->value->type.element;
    if (number_bits(element) > number_bits(widest)) widest = element;
  }
  return widest == NUMBER_TF32 ? NUMBER_F32 : widest;
}

/* How often the warps of a row have elements of it side by side: a scan needs what each of these combines to. */
static unsigned blocks_behind_warps(const Layout *layout, unsigned dim)
{
  unsigned blocks = 1, least = G_MAXUINT;
  for (unsigned i = 0; i < layout->n; i++)
    if (layout->modes[i].place == PLACE_WARP && layout->modes[i].dim == (int)dim)
      least = MIN(least, layout->modes[i].step);
  for (unsigned i = 0; i < layout->n; i++)
    if (layout->modes[i].place == PLACE_REGISTER && layout->modes[i].dim == (int)dim &&
        layout->modes[i].step > least)
      blocks *= layout->modes[i].size;
  return blocks;
}

static void place_sort_exchange(IrFunction *kernel, IrOp *sort)
{
  const IrType *type = &sort->operands[0]->value->type;
  unsigned dim = (unsigned)ir_attribute_int(sort, ATTR_DIM, 0);
  unsigned keep = (unsigned)ir_tile_extent(&sort->results[0]->type, dim);
  Sorting sorting;
  if (!sorting_of(type->layout, dim, keep, &sorting)) return; /* which the lowering refuses */
  unsigned extents[2] = {1, (unsigned)sorting_exchanged(&sorting, sort->n_operands > 1)};
  SortingBound bound;
  if (sorting_bound_of(type->layout, dim, keep, (unsigned)ir_attribute_int(sort, ATTR_SURVIVORS, 0), &bound))
    extents[1] = (unsigned)sorting_bound_exchanged(&bound, type->layout);
  if (extents[1])
    ir_attribute_set(sort, ATTR_EXCHANGE,
                     exchange_declare(kernel, &sort->mark, type->element, 2, extents, 0));
}

/* Counters of each warp, and of the block; where nobody asks what they were, the block's alone. */
static void place_count_exchange(IrFunction *kernel, IrOp *count)
{
  const IrType *start = &count->operands[1]->value->type;
  bool places = ir_region_uses(kernel->body, count->results[0]);
  unsigned extents[2] = {places ? layout_size(count->operands[0]->value->type.layout, PLACE_WARP) + 1 : 1,
                         (unsigned)ir_tile_elements(start)};
  ir_attribute_set(count, ATTR_EXCHANGE,
                   exchange_declare(kernel, &count->mark, start->element, 2, extents, 0));
}

/* A shared tile [warps, rows] through which the warps of a row meet; of several tiles the rows of one lie behind those
 * of the other. */
void place_exchange(IrFunction *kernel, IrOp *reduce)
{
  const IrType *type = &reduce->operands[0]->value->type;
  unsigned dim = (unsigned)ir_attribute_int(reduce, ATTR_DIM, 0);
  if (reduce->code == OP_SORT) {
    place_sort_exchange(kernel, reduce);
    return;
  }
  if (reduce->code == OP_PICK) {
    unsigned places[2] = {layout_size(type->layout, PLACE_WARP),
                          (unsigned)ir_tile_extent(&reduce->results[0]->type, dim)};
    ir_attribute_set(reduce, ATTR_EXCHANGE,
                     exchange_declare(kernel, &reduce->mark, NUMBER_S32, 2, places, 0));
    return;
  }
  if (reduce->code == OP_COUNT) {
    place_count_exchange(kernel, reduce);
    return;
  }
  if (!crosses_warps(type->layout, dim) || ir_attribute(reduce, ATTR_EVERY)) return;
  unsigned parts = reduce->code == OP_SCAN ? blocks_behind_warps(type->layout, dim) : reduce->n_operands;
  unsigned extents[2] = {layout_size(type->layout, PLACE_WARP),
                         (unsigned)(ir_tile_elements(type) / ir_tile_extent(type, dim)) * parts};
  ir_attribute_set(reduce, ATTR_EXCHANGE,
                   exchange_declare(kernel, &reduce->mark, exchanged_element(reduce), 2, extents, 0));
}
