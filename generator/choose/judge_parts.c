/* What parts of rows take. */
#include "generator/choose/row_price.h"
#include "generator/choose/verdict.h"
#include "generator/program/parts.h"
#include <math.h>

#define MOST_TURNS 4 /* of blocks that an SM has at once, beyond which no more is gained */

/* At the end SMs have fewer blocks than they have room for: the less of the time, the more often that is filled. Blocks that have
 * their loads on their way together need no more than whole turns of all SMs, of which the last, if it is not, is lost half. */
static double lost(const Problem *problem, const Choice *choice, double blocks)
{
  double turns = blocks / (row_resident(problem->gpu, choice) * problem->gpu->sm_count);
  if (choice_int(choice, "ahead", 1) > 1) return (1 + ceil(turns) / turns) / 2;
  return 1 + (problem->gpu->model->parts_price - 1) / fmin(fmax(turns, 1), MOST_TURNS);
}

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
  double blocks = fmax(1, ceil(rows / tile)) * n;
  double clocks = row_clocks(problem, &chooser->variants[0], blocks, rows * n);
  if (clocks >= 0) verdict_price(verdict, clocks * lost(problem, &chooser->variants[0], blocks), NULL);
}
