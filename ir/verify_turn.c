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

/* A loop within the section may be left. */
static void check_leaving(Verifier *verifier, const IrOp *section, const IrRegion *region,
                          const char *consequence)
{
  for (const IrOp *op = region->first; op; op = op->next) {
    bool passes = op->code == OP_IF || op->code == OP_WHEN || op->code == OP_TAKE || op->code == OP_TURN;
    if (op->code == OP_BREAK_IF)
      verify_fault(verifier, &op->mark, ir_op_info(section->code)->name, NULL, "`break_if` leaves %s",
                   consequence);
    for (unsigned i = 0; passes && i < op->n_regions; i++)
      check_leaving(verifier, section, op->regions[i], consequence);
  }
}

void verify_not_left(Verifier *verifier, const IrOp *section, const char *consequence)
{
  check_leaving(verifier, section, section->regions[0], consequence);
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
  else {
    g_autofree char *consequence =
        g_strdup_printf("the section `@%s`, and nobody else gets the turn", op->symbol);
    verify_not_left(verifier, op, consequence);
  }
  if (ir_attribute(op, ATTR_INSTANCES) || ir_attribute(op, ATTR_IDS))
    verify_fault(verifier, &op->mark, "turn", "leave out `instances` and `ids`",
                 "who takes turns follows from the products of the role");
  check_place(verifier, op);
}
