/* A product that a loop carries out, as one operator over all of its times. */
#pragma once
#include "generator/program/fused.h"

/* How the tensor lies from time to time; NULL: it is the same at all of them. */
const GraphTime *graph_time_of(const GraphTimes *times, const GraphTensor *tensor);
/* Extent of the tensor along the operator's first dim, which is the times: of states the two places. */
const Symbolic *fused_time_extent(Arena *arena, const FusedOperator *op, const GraphTensor *tensor);
/* The operator over all times, which are its first dim; it lives in `arena`. NULL and *why: one kernel cannot do it. */
const FusedOperator *gemm_in_times(Arena *arena, const FusedOperator *op, const GraphTimes *times,
                                   const char **why);
