/* What of a row's elements is alive at once, phase by phase, before there are passes that would say it, and what its program has. Pure
 * functions. */
#pragma once
#include "generator/program/fused.h"

/* Bits of each element. `lean`: later phases load what they need a vector at a time. */
unsigned row_most_bits(const FusedOperator *op, bool lean);
/* How many values of each element are kept at once at most, behind a phase for later ones; what phases read is not. */
unsigned row_count_kept(const FusedOperator *op);
/* How many inputs' elements stay so, as they were loaded. */
unsigned row_count_loaded(const FusedOperator *op);

/* Are there places of extrema, more reductions than one or several results? What registers are known to be taken is fitted to fewer: only
 * the passes know what kernels of these have alive at once. */
bool row_may_keep_more(const FusedOperator *op);
bool row_has_moments(const FusedOperator *op);
/* Operands that lie along the columns, such as a norm's scale. */
unsigned row_count_operands(const FusedOperator *op);
/* Tensors of which a row reads one element at an index. */
unsigned row_count_places(const FusedOperator *op);
/* Every reduction and what follows them start from elements of one tensor as they were loaded: a sum of squares leaves nothing of f32,
 * and half of what others need beside an operand. */
bool row_keeps_loaded(const FusedOperator *op);
/* A sum of exponentials is all that is wanted of elements of few bits: they stay as they were loaded, and no exponential stays. */
bool row_sums_powers(const FusedOperator *op);
/* What follows the sum wants exponentials of elements of few bits, too, by the hardware's: they may be computed again from elements as they were
 * loaded. */
bool row_may_raise_again(const FusedOperator *op);
/* Bytes of an element of the widest input that is read along rows. */
unsigned row_widest_bytes(const FusedOperator *op);
/* Bytes of so many elements of rows that come from memory: not of what other rows read too, which L2 has. */
int64_t row_fresh_bytes(const FusedOperator *op, int64_t elements);
