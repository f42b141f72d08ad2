/* Rows that are known to begin inside of a sector of memory. TMA is less than half as fast on
 * them (docs/performance-log.md). Pure functions; thread-safe. */
#pragma once
#include "adl/gpu.h"
#include "generator/fusion/fusion.h"
#include "generator/program/gemm.h"

/* Of the product's operands. */
bool gemm_a_straddles(const Gpu *gpu, const FusedGemm *gemm);
bool gemm_b_straddles(const Gpu *gpu, const FusedGemm *gemm);
/* What rows of the operand are known to begin at multiples of, bytes, up to WHOLE_LINES: where they begin inside of a
 * line, what neighbouring SMs ask for together passes from the L2 cache more than once. */
#define WHOLE_LINES 128
unsigned gemm_a_lines(const FusedGemm *gemm);
unsigned gemm_b_lines(const FusedGemm *gemm);
/* Of the first result, if TMA stores it: nothing is known of rows that only threads can store.
 * `op` as it is written, its columns the tensor's. */
bool gemm_out_straddles(const Gpu *gpu, const FusedOperator *op);
