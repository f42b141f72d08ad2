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
  double tile = (double)choice_int(&chooser->variants[0], "rows", 1);
  double rows = (double)choose_typical(problem, parts->rows),
         columns = (double)choose_typical(problem, parts->columns);
  double n = fmax(1, ceil(columns / (double)choose_typical(problem, parts->width)));
  double clocks = row_clocks(problem, &chooser->variants[0], fmax(1, ceil(rows / tile)) * n, rows * n);
  if (clocks >= 0) verdict_price(verdict, clocks * problem->gpu->model->parts_price, NULL);
}
