/* Rows that one reduction leaves one value of each have a price; others are not asked for it yet. */
#include "generator/choose/row_price.h"
#include "generator/choose/row_program.h"
#include "generator/choose/verdict.h"
#include "generator/program/row.h"
#include <math.h>

void judge_row(const Problem *problem, bool priced, ProgramVerdict *verdict)
{
  const char *why = row_program_refuse(problem);
  if (why) verdict_refuse(verdict, why);
  if (why || !priced || !row_program_streams(problem->op)) return;
  g_autofree Chooser *chooser = g_new0(Chooser, 1);
  chooser->problem = problem;
  if (!choose_row(chooser) || !chooser->n) return;
  const Choice *any = &chooser->variants[chooser->n - 1]; /* for rows of any length */
  double rows = (double)choice_int(any, "rows", 0);
  if (rows <= 0) return;
  double results = (double)choose_typical(problem, row_of(problem->op)->rows),
         blocks = fmax(1, ceil(results / rows));
  double clocks = row_clocks(problem, any, blocks, results);
  if (clocks >= 0) verdict_price(verdict, clocks, NULL);
}
