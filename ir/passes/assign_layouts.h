/* Layouts of values: which of those that fit each tile of registers has, and the conversions between them. */
#pragma once
#include "ir/ir.h"

/* The choice at hand. Every value already has the layout that its shape has; what is fixed keeps it. */
typedef struct {
  IrModule *module;
  IrFunction *kernel;
  const GPtrArray *ops; /* IrOp*, all of the kernel in order */
  GHashTable *
      fixed; /* IrValue*, a set: sums of products, parts of these, what a cluster adds up, what is loaded as its load likes it */
  GHashTable *
      wanted; /* IrOp* -> const Layout*: of a product that of its operand in registers, of a store that of what it stores */
  unsigned bank; /* bytes of a bank of shared memory */
  /* A layout for a type among values that nothing ties to a product, as their accesses like it; NULL: none. */
  const Layout *(*alone)(void *data, GHashTable *values, const IrType *type);
  void *data;
  GError **error;
} LayoutAssignment;

/* The layout that a tile of `type` has beside one of `layout`: the same extents, or 1 where it is a row or a column of
 * that tile. NULL: another shape. */
const Layout *layout_beside(Arena *arena, const Layout *layout, const IrType *type);
/* Gives each value its layout and writes the conversions. false and an error where one is not possible. */
bool assign_layouts(LayoutAssignment *assignment);
/* A tile of shared memory of its own, declared at the head of the kernel, through which threads exchange `type`. */
IrExpr *exchange_declare(IrFunction *kernel, const Mark *mark, NumberType element, unsigned rank,
                         const unsigned *extents, unsigned pad);
