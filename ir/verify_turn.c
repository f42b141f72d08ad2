/* The verifier's rules for `turn`: a declaration of roles' instances at STAGED, a section of the text at TILE. */
#include "ir/verifier.h"

static void declared_turn(Verifier *verifier, const IrOp *op)
{
  if (op->n_regions)
    verify_fault(verifier, &op->mark, "turn", "`turn_wait` and `turn_pass` stand around the section",
                 "`turn` is a declaration at this level");
  else if (!ir_attribute(op, ATTR_INSTANCES))
    verify_fault(verifier, &op->mark, "attribute", NULL, "`turn` needs `instances`");
}

/* What leaves the section would keep its turn. */
static void check_leaving(Verifier *verifier, const IrOp *section, const IrRegion *region)
{
  for (const IrOp *op = region->first; op; op = op->next) {
    if (op->code == OP_BREAK_IF)
      verify_fault(verifier, &op->mark, "turn", NULL,
                   "`break_if` leaves the section `@%s`, and nobody else gets the turn", section->symbol);
    for (unsigned i = 0; op->code == OP_IF && i < op->n_regions; i++)
      check_leaving(verifier, section, op->regions[i]);
  }
}

static void check_place(Verifier *verifier, const IrOp *section)
{
  bool tiles = false;
  for (const IrOp *around = section->parent->owner; around; around = around->parent->owner) {
    tiles |= around->code == OP_TILES;
    if (around->code == OP_TURN)
      verify_fault(verifier, &section->mark, "turn", "close the one before the other begins",
                   "a section stands in another one, `@%s`", around->symbol);
  }
  if (!tiles)
    verify_fault(verifier, &section->mark, "turn", NULL,
                 "`turn` stands in the work on a tile, inside of `tiles`");
}

void verify_turn(Verifier *verifier, const IrOp *op)
{
  if (verifier->module->level == IR_STAGED) {
    declared_turn(verifier, op);
    return;
  }
  if (!op->n_regions || !op->regions[0]->first)
    verify_fault(verifier, &op->mark, "turn", "turn @name { ... }",
                 "`turn` needs the section that is taken in turn");
  else
    check_leaving(verifier, op, op->regions[0]);
  if (ir_attribute(op, ATTR_INSTANCES) || ir_attribute(op, ATTR_IDS))
    verify_fault(verifier, &op->mark, "turn", "leave out `instances` and `ids`",
                 "who takes turns follows from the products of the role");
  check_place(verifier, op);
}
