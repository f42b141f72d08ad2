/* Rows that begin and end within vectors: a thread has whole vectors of them, but for those at a row's ends, of which what lies
 * inside goes element by element. */
#include "ir/lower/lower.h"
#include "ir/passes/division.h"

void lower_load_edges(Lower *lower, const IrOp *op, LowerTile *tile, unsigned n, LowerEdge *edges)
{
  const IrExpr *fill = lower_fill_of(lower, op), *cache = ir_attribute_value(op, ATTR_CACHE);
  for (unsigned i = 0; i < n && !lower->failed; i++) {
    if (edges[i].part)
      lower_load_edge(lower, tile, &edges[i], fill, cache);
    else
      lower_load_vector(lower, OP_LOAD_GLOBAL, edges[i].address, tile, edges[i].reg, edges[i].count,
                        edges[i].whole, fill, cache);
  }
  for (unsigned i = 0; i < n && !lower->failed; i++)
    if (edges[i].part) lower_ask_edge_part(lower, tile, &edges[i], fill, cache);
  for (unsigned i = 0; i < n && !lower->failed; i++)
    if (edges[i].part) lower_take_edge_part(lower, tile, &edges[i]);
}

void lower_store_edges(Lower *lower, const IrOp *op, LowerTile *tile, unsigned n, LowerEdge *edges,
                       IrExpr *owner)
{
  const IrExpr *cache = ir_attribute_value(op, ATTR_CACHE);
  for (unsigned i = 0; i < n && !lower->failed; i++)
    lower_store_vector(lower, OP_STORE_GLOBAL, edges[i].address, tile, edges[i].reg, edges[i].count,
                       lower_and(lower, owner, edges[i].whole), cache);
  for (unsigned i = 0; i < n && !lower->failed; i++) {
    if (!edges[i].part) continue;
    edges[i].part = lower_and(lower, owner, edges[i].part);
    lower_store_edge_part(lower, tile, &edges[i], cache);
  }
}

IrExpr *lower_slid_corner(Lower *lower, const IrOp *op, unsigned by)
{
  IrExpr *before = ir_attribute_value(op, ATTR_LEAD);
  unsigned rank = op->results[0]->type.rank;
  return division_corner(lower->module, op->operands[0], rank, rank - 1,
                         ir_binary(lower->module, OPERATOR_SUB, lower_int(lower, by), before));
}

bool lower_slides_one_row(const IrOp *op)
{
  const IrExpr *access = op->operands[0];
  int64_t row;
  for (unsigned d = 1; d + 1 < access->n; d++)
    if (!ir_expr_is_int(access->items[d], &row) || row) return false;
  return access->kind == EXPR_INDEX;
}

void lower_load_slid(Lower *lower, const IrOp *op, LowerTile *tile, unsigned n, LowerEdge *const edges[2],
                     const LowerEdge *own)
{
  const IrExpr *cache = ir_attribute_value(op, ATTR_CACHE);
  IrExpr *from = lower_s32(lower, ir_attribute_value(op, ATTR_LEAD));
  LowerTile *pair[2];
  for (unsigned i = 0; i < 2; i++)
    pair[i] = lower_tile_new(lower, tile->element, tile->layout);
  for (unsigned i = 0; i < n && !lower->failed; i++) {
    if (edges[0][i].part || edges[1][i].part) {
      lower_load_edge_elements(lower, tile, &own[i], NULL, cache);
      continue;
    }
    for (unsigned j = 0; j < 2; j++)
      lower_load_vector(lower, OP_LOAD_GLOBAL, edges[j][i].address, pair[j], own[i].reg, own[i].count,
                        edges[j][i].whole, NULL, cache);
    lower_slide_vector(lower, tile, own[i].reg, own[i].count, pair, from);
  }
}
