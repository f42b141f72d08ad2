/* What the description rules out of products whose operands TMA brings, asked before there is a kernel
 * (pass choose_mechanisms refuses the same, with the reason). Pure; thread-safe. */
#pragma once
#include "generator/choose/gemm_candidate.h"
#include "generator/program/gemm.h"

/* Bytes that addresses and strides of tensors are multiples of where TMA reads or writes them. */
unsigned gemm_map_multiple(const Gpu *gpu);
/* The most elements of a box along a side. */
unsigned gemm_box_side(const Gpu *gpu);
/* Can tiles of both operands be boxes of tensor maps that warpgroup MMAs read: is there a swizzle that both have,
 * are the tensors' dimensions few enough, and may strides be the multiples asked for? */
bool gemm_engine_brings(const Problem *problem, const FusedGemm *gemm);
/* Can elements of a type that lie across k pass through registers? */
bool gemm_passes_registers(const Gpu *gpu, NumberType type);
/* Panels of an operand that does not lie along k: whole ones of the widest swizzle, or one of a narrower one. */
bool gemm_is_panel(const Gpu *gpu, unsigned extent, NumberType type);
/* Can blocks of a cluster share what TMA brings? */
bool gemm_shares_copies(const Gpu *gpu);
