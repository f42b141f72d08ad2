/* Roles of a kernel in TILE form whose slots are filled with what it computes, from the graph of its channels.
 *
 * An engine's fills are the producer's. What fills a channel with values begins a role: it does all that these values are
 * computed from. The last role does what the kernel leaves behind: the consumer. Roles that take one channel, or fill
 * channels with one computation, are one; where the consumer needs a computation too, or takes nothing else meanwhile, it fills those channels itself. Numbers, and what is cheap to compute again, every role has for itself. */
#pragma once
#include "ir/ir.h"

#define ROLE_NODES_MOST 6

typedef struct {
  const char *name;  /* of the role: `fills_` and the first channel it fills, or "consumer" */
  GHashTable *does;  /* IrOp *, a set: what it keeps of the kernel, the loops around it too */
  GHashTable *takes; /* IrOp * of channels, a set: whose slots it reads and frees */
  GPtrArray *fills;  /* IrOp * of channels that it fills with values */
} RoleNode;

typedef struct {
  RoleNode nodes[ROLE_NODES_MOST]; /* the consumer is the last */
  unsigned n;                      /* 0: nothing is filled with values, or no engine fills a channel */
} RoleGraph;

/* Is the op the filling of a slot with a value (a `put`, once mechanisms are chosen)? Gives the channel, if wanted. */
bool role_fills_slot(const IrFunction *kernel, const IrOp *op, IrOp **channel);
/* Bytes of a channel's slot that are copied from tensors; the others are filled with values. */
int64_t role_copied_bytes(const IrFunction *kernel, const IrOp *channel);
/* The graph of a kernel at TILE level, mechanisms chosen; false and an error where the text has no such roles. */
bool role_graph_read(IrFunction *kernel, RoleGraph *graph, GError **error);
/* What several roles do that gives tiles becomes an op of each: then every tile belongs to one role. */
void role_graph_part(IrFunction *kernel, RoleGraph *graph);
void role_graph_clear(RoleGraph *graph);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(RoleGraph, role_graph_clear)
