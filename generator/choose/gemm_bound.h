/* Bounds on what a candidate takes of an SM, for tiles that are tried by the hundred: cheap, and never more than what the
 * real passes then take (tests/unit/test_choose_bounds.c compares them), so that no candidate is left out for them that
 * the passes would take. What the passes say of those that are chosen (generator/choose/dry_run.h) goes before them.
 * Pure functions of a Problem; thread-safe. */
#pragma once
#include "generator/choose/gemm_candidate.h"

/* Warpgroups that multiply. */
unsigned gemm_consumer_warpgroups(const GemmCandidate *candidate);

/* Bytes of shared memory: of a slot of the ring; of what a block gets of other blocks' parts of its columns; of results on
 * their way out; of these where the other warpgroup's products hide that they leave narrowly, and that gains the ring a
 * slot it needs. */
unsigned gemm_slot_bytes(const Problem *problem, const GemmCandidate *candidate);
unsigned gemm_exchange_bytes(const Problem *problem, const GemmCandidate *candidate);
unsigned gemm_staging_bytes(const Problem *problem, const GemmCandidate *candidate);
unsigned gemm_least_staging(const Problem *problem, const GemmCandidate *candidate);
/* All that a block takes where results go straight from registers. */
unsigned gemm_least_shared(const Problem *problem, const GemmCandidate *candidate);
/* May the passes take it for all that is known of registers, barriers and threads? Shared memory apart: whoever sets a tile
 * by hand is told by how much that is short. */
bool gemm_bound_admits(const Problem *problem, const GemmCandidate *candidate);
/* What it may have, less barriers and what alignment loses. */
unsigned gemm_room(const Problem *problem, const GemmCandidate *candidate);

/* Registers of a thread of warpgroups that multiply: what its sums take at least, and what it may have at most. */
unsigned gemm_least_sums(const Problem *problem, const GemmCandidate *candidate);
unsigned gemm_most_registers(const Gpu *gpu, const GemmCandidate *candidate);
/* Have threads of warpgroups that multiply registers for their sums, and what they need besides (found with ptxas)?
 * Asked of bounds first, then of what the passes say. */
bool gemm_registers_suffice(const Problem *problem, const GemmCandidate *candidate, unsigned sums,
                            unsigned registers);
