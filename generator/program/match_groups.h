/* Groups of rows whose sizes are loaded, as a product's program has them: which tensor tells them, and how. */
#pragma once
#include "generator/program/bind.h"
#include "generator/program/gemm.h"

typedef struct ProgramGroups {
  GemmGroups kind; /* GEMM_WHOLE: there are none */
  int rows, axis;  /* axes of a group's rows, or of its part of k, and of the groups */
  int walked;      /* axis along which the sizes are looked through, which is no dim; PROGRAM_NONE: none is */
  int sizes;       /* node that reads them */
  int begin;       /* node where a group begins; PROGRAM_NONE: at 0 */
  int64_t align;
  unsigned reductions; /* that are part of this */
} ProgramGroups;

/* Behind bind_open(): what tells the groups is inside. false: binding->why. */
bool bind_groups(Binding *binding, ProgramGroups *groups);
/* Do all that is read and written along a group's rows begin where it does, and is nothing computed of what tells them? */
bool bind_groups_fit(Binding *binding, const ProgramGroups *groups);
/* What the product's binding keeps of them. */
void bind_groups_take(const Binding *binding, const ProgramGroups *groups, Space *space, FusedGemm *gemm);
