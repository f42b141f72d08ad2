/* Between the files of choose_mechanisms only: a kernel whose mechanisms are being chosen. */
#pragma once
#include "ir/mechanism.h"
#include "ir/pass.h"

typedef struct {
  const IrPassContext *context;
  IrModule *module;
  IrFunction *kernel;
  GPtrArray *fills, *puts, *products, *stores, *channels, *combinations;
  unsigned pingpong;  /* instances that take tiles in turn, each with staging of its own */
  unsigned consumers; /* instances that each do all of a tile, with staging of their own, too */
  const IrOp *tiles;  /* the walk, if there is one */
  bool threads;       /* some slots cannot be filled by an engine, so that threads fill all */
  bool by_warps;      /* warps multiply, though groups of them could */
  GError **error;
  bool failed;
} Choice;

/* Instances that each have whole tiles. */
static inline unsigned choice_instances(const Choice *choice)
{
  return MAX(choice->pingpong, choice->consumers);
}

/* Warpgroups that share 64 rows of a product, as its text asks. */
static inline unsigned choice_beside(const IrOp *mma)
{
  return (unsigned)ir_attribute_int(mma, ATTR_WARPGROUPS_N, 1);
}

/* The tensor that an access names, or NULL. */
const IrType *choice_tensor_of(const IrExpr *access);
/* A reason, in the module's arena. */
const char *choice_refusal(const Choice *choice, const char *format, ...) G_GNUC_PRINTF(2, 3);
/* Bytes of all slots. */
uint64_t choice_ring_bytes(const Choice *choice);
/* How results leave, once what fills slots and takes products is chosen. */
void choose_stores(Choice *choice);
