/* Measured choices for any operator: what an entry is filed under, and what becomes of one. Products by tiles have entries
 * of their own, for ranges of rows (tuned_gemm.h). */
#pragma once
#include "generator/choose/problem.h"
#include "generator/choose/tuned.h"

/* Fills in what it computes, SMs and extents, which live in the problem's arena; of extents that are known only at launch
 * what is typical, and true in `open` (TUNED_MAX_EXTENTS; NULL: there may be none). false: nothing is filed under it. */
bool tuned_operator_key(const Problem *problem, TunedEntry *key, bool *open);

/* The variant that launches where operands lie well, chosen anew with parameters that were measured, as --set would ask for
 * them. `chooser` has the model's variants, `first` gets it. false: it cannot have them, or the passes refuse it. */
bool tuned_operator_variant(const Chooser *chooser, const TunedParameter *parameters, unsigned n,
                            Choice *first);
/* Gives the chooser what was measured of its operator, if the options bring a database that has it and it is legal; notes
 * what was found. Extents may be open where no variant's guard asks for one. */
void tuned_operator_take(Chooser *chooser);
