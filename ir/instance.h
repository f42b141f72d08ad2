/* Instantiation's state, shared by its files: binding and inlining (ir/instantiate.c), scalar sub-kernels
 * applied to tiles (ir/elementwise.c). */
#pragma once
#include "ir/ir.h"

typedef struct Instance {
  IrModule *module;
  GHashTable *bindings;   /* parameter name -> IrExpr* */
  IrFunction *target;     /* the function whose body is being made */
  GHashTable *reserved;   /* symbols of the target's own text: inlined ones make way */
  GHashTable *referenced; /* functions that stay, by name: combiners and schedulers */
  GQueue *pending;        /* IrFunction*: those of them whose bodies are still to be made */
  bool rows;              /* the target's tiles may have the extent of a row */
  unsigned copied;        /* operations made so far: sub-kernels that call others twice grow fast */
  GError **error;
} Instance;

#define INSTANCE_MAX_OPS 200000

/* One body being copied: the target's own, or that of a sub-kernel at a call. */
typedef struct Frame Frame;
struct Frame {
  Instance *instance;
  Frame *caller;              /* NULL for the target's own body */
  const IrFunction *function; /* whose body is copied */
  const IrOp *call;           /* the call that is inlined */
  GHashTable *values;         /* IrValue* of the template -> IrExpr* */
  GHashTable *symbols;        /* symbol of the template -> new name */
  GHashTable *dims;           /* a sub-kernel's bare names -> IrExpr* */
  const IrType *shape;        /* a scalar sub-kernel applied to tiles: their shape; else NULL */
  IrExpr **returned;          /* what `return` gave */
};

/* Sets the error at a place, with notes that lead from the call to the kernel; always false. */
bool instance_fail(const Frame *frame, const Mark *mark, const char *code, const char *hint,
                   const char *format, ...) G_GNUC_PRINTF(5, 6);

/* In a frame with a shape: `%x * 2.0 + 1.0` over tiles becomes operations. NULL and an error where that is
 * impossible. */
IrExpr *elementwise_expr(Frame *frame, IrBuilder *builder, IrExpr *expr, const Mark *mark);
/* Type of a result of an operation whose operands have been replaced: a tile of the frame's shape if one of
 * them is. */
bool elementwise_result(Frame *frame, const IrOp *op, IrType *type);
