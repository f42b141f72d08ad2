/* Rows that one reduction leaves one value of each have a price; others are not asked for it yet. Of those that compute much the
 * passes say whether there is a kernel for all lengths. */
#include "generator/choose/row_price.h"
#include "generator/choose/row_program.h"
#include "generator/choose/verdict.h"
#include "generator/program/row.h"
#include <math.h>

void judge_row(const Problem *problem, bool priced, ProgramVerdict *verdict)
{
  const char *why = row_program_refuse(problem);
  bool heavy = row_program_is_heavy(problem->op), costs = priced && row_program_streams(problem->op);
  if (why) verdict_refuse(verdict, why);
  if (why || (!heavy && !costs)) return;
  g_autofree Chooser *chooser = g_new0(Chooser, 1);
  chooser->problem = problem;
  bool any = choose_row(chooser) && chooser->n && !chooser->variants[chooser->n - 1].guard;
  if (!any && heavy && !choose_is_forced(problem))
    verdict_refuse(verdict, "threads have no registers for what its phases have alive at once");
  unsigned budget = problem->options ? problem->options->sm_budget : 0,
           sms = budget ? budget : problem->gpu->sm_count;
  if (any && row_of(problem->op)->n_sums)
    verdict->at_once = (double)choice_int(&chooser->variants[0], "blocks", 1) * sms;
  if (!any || !costs) return;
  const Choice *all = &chooser->variants[chooser->n - 1]; /* for rows of any length */
  double rows = (double)choice_int(all, "rows", 0);
  if (rows <= 0) return;
  double results = (double)choose_typical(problem, row_of(problem->op)->rows),
         blocks = fmax(1, ceil(results / rows));
  double clocks = row_clocks(problem, all, blocks, results);
  if (clocks >= 0) verdict_price(verdict, clocks, NULL);
}
