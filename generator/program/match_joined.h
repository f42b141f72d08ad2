/* Between the matcher of attention and this part of it: a new row of each batch, which goes into a cache where it lies. */
#pragma once
#include "generator/program/attention.h"
#include "generator/program/bind.h"

/* Of keys and of values. */
typedef struct BoundJoined {
  unsigned n; /* 0: no operand is read of two tensors; 2: both */
  ProgramJoined of[2];
  int tables[2]; /* the nodes that read which page a row goes to; PROGRAM_NONE: caches lie in no pages */
} BoundJoined;

/* The node that reads the cache that the contraction's right operand is read of; PROGRAM_NONE: it is not read of two tensors. */
int bind_joined(Binding *binding, const ProgramNode *dot, BoundJoined *joined);
/* Does the node store one of the rows at the place that it has as a key, in its page by the table that a node (PROGRAM_NONE: none) reads? */
bool bind_writes_joined(const Binding *binding, BoundJoined *joined, int table, unsigned node);
/* Adds what computes where in their pages rows are stored, by node. */
void bind_places_joined(const Program *program, const BoundJoined *joined, bool *places);
/* Once bounds and dims are known; elements: the axes along a row of keys and of values. false: the templates cannot take the rows so. */
bool bind_settle_joined(Binding *binding, BoundJoined *joined, int table, const unsigned *elements,
                        FusedAttention *attention);
