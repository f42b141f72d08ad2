/* What parts of rows take. */
#include "generator/choose/row_price.h"
#include "generator/choose/verdict.h"
#include "generator/program/parts.h"
#include "ir/resources.h"
#include <math.h>

#define MOST_TURNS 4 /* of blocks that an SM has at once, beyond which no more is gained */

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
  /* At the end SMs have fewer blocks than they have room for: the less of the time, the more often that is filled. */
  unsigned threads = (unsigned)choice_int(&chooser->variants[0], "threads", 1);
  double turns = blocks / ((double)MAX(1, resident_blocks(problem->gpu, threads)) * problem->gpu->sm_count);
  double lost = (problem->gpu->model->parts_price - 1) / fmin(fmax(turns, 1), MOST_TURNS);
  if (clocks >= 0) verdict_price(verdict, clocks * (1 + lost), NULL);
}
