/* What parts of rows take. */
#include "generator/choose/row_price.h"
#include "generator/choose/verdict.h"
#include "generator/program/parts.h"
#include <math.h>

void judge_parts(const Problem *problem, bool priced, ProgramVerdict *verdict)
{
  const FusedParts *parts = parts_of(problem->op);
  if (problem->options && problem->options->sm_budget) {
    verdict_refuse(verdict, "parts of rows are for all SMs");
    return;
  }
  if (!priced) return;
  g_autofree Chooser *chooser = g_new0(Chooser, 1);
  chooser->problem = problem;
  if (!choose_parts(chooser) || !chooser->n) return;
  double rows = (double)choice_int(&chooser->variants[0], "rows", 1),
         width = (double)choose_typical(problem, parts->width);
  double blocks = fmax(1, ceil((double)choose_typical(problem, parts->rows) / rows)) *
                  fmax(1, ceil((double)choose_typical(problem, parts->columns) / width));
  double clocks = row_clocks(problem, &chooser->variants[0], blocks);
  if (clocks >= 0) verdict_price(verdict, clocks, NULL);
}
