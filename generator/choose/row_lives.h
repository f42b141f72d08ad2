/* What of a row's elements is alive at once, phase by phase: before there are passes that would say it. Pure functions. */
#pragma once
#include "generator/program/fused.h"

/* Bits of each element. `lean`: later phases load what they need a vector at a time. */
unsigned row_most_bits(const FusedOperator *op, bool lean);
/* How many values of each element are kept at once at most, behind a phase for later ones; what phases read is not. */
unsigned row_count_kept(const FusedOperator *op);
/* How many inputs' elements stay so, as they were loaded. */
unsigned row_count_loaded(const FusedOperator *op);
