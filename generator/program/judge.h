/* The judge of programs: whether kernels exist for one, and what they take. Fusion asks it before it joins, copies or
 * rewrites anything; families' matchers and choosers answer (generator/choose/judge.c). Who writes kernels is above
 * this header, who asks depends on it alone. */
#pragma once
#include "generator/program/program.h"

typedef struct ProgramVerdict {
  bool taken;    /* some family takes each program, and none would rather have it in parts */
  bool priced;   /* asked for and known */
  bool even;     /* all SMs are busy until its end, so that parts of it would gain nothing */
  double clocks; /* of all kernels, one behind the other, at typical extents of the graph's symbols */
  double last;   /* of these the last one's */
  double
      at_once; /* blocks of the last one that the GPU runs at once, of rows that leave sums of columns; 0: not known */
  const char *name; /* of the family of the last program; NULL: refused */
  const char
      *why; /* refused: the reason. Else what a price holds for or why there is none, or NULL. Static, or in
                       the program's arena */
} ProgramVerdict;

/* Programs, at least one, that would run one behind the other. `priced`: clocks are wanted, which takes longer. */
typedef ProgramVerdict (*ProgramJudge)(const Program *const *programs, unsigned n, bool priced, void *data);

/* The judge that knows no GPU: what a family's matcher takes is taken, nothing has a price. No data. */
ProgramVerdict program_judge_families(const Program *const *programs, unsigned n, bool priced, void *data);
