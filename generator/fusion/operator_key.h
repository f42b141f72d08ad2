/* What a fused operator computes, apart from where it stands in its graph and what things are called there.
 *
 * Two operators of one key get the same variants and the same kernels from generator_compile(): their launches
 * differ by which tensor, and which symbol, has which position in the key. */
#pragma once
#include "generator/fusion/fusion.h"

typedef struct OperatorKey {
  char *text; /* equal for operators that one list of kernels serves */
  GPtrArray
      *symbols; /* const char *, of the graph: dimensions in the order in which the text first has them */
  GPtrArray *tensors; /* const char *, of the graph: the same of tensors */
} OperatorKey;

/* The names are the graph's, which must outlive the key. */
OperatorKey *operator_key(const FusedOperator *op, const Graph *graph);
void operator_key_free(OperatorKey *key);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(OperatorKey, operator_key_free)
/* So many hexadecimal digits of the text's checksum, at most 64; g_free. */
char *operator_key_digits(const OperatorKey *key, unsigned n);

/* What an inserted copy is a copy of; NULL if the tensor is no such copy. An Identity of the graph may be written in padded rows too
 * (align_operands), but what that reads need not be stored. */
const GraphTensor *operator_copied(const Graph *graph, const GraphTensor *tensor);
