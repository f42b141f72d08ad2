/* Between the matcher of attention and this part of it: a new row of each batch, which goes into a cache where it lies. */
#pragma once
#include "generator/program/attention.h"
#include "generator/program/bind.h"

/* Of keys and of values. */
typedef struct BoundJoined {
  unsigned n; /* 0: no operand is read of two tensors; 2: both */
  ProgramJoined of[2];
} BoundJoined;

/* The node that reads the cache that the contraction's right operand is read of; PROGRAM_NONE: it is not read of two tensors. */
int bind_joined(Binding *binding, const ProgramNode *dot, BoundJoined *joined);
/* Does the node store one of the rows at the place that it has as a key? */
bool bind_writes_joined(const Binding *binding, const BoundJoined *joined, unsigned node);
/* Once bounds and dims are known; elements: the axes along a row of keys and of values. false: the templates cannot take the rows so. */
bool bind_settle_joined(Binding *binding, const BoundJoined *joined, const unsigned *elements,
                        FusedAttention *attention);
