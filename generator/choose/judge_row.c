/* Rows that leave one value each have a price; others are not asked for it yet. What no other template takes is a row
 * program, whose rows must fit. */
#include "generator/choose/row_price.h"
#include "generator/choose/row_program.h"
#include "generator/choose/verdict.h"
#include "generator/program/row.h"
#include <math.h>

void judge_row(const Problem *problem, bool priced, ProgramVerdict *verdict)
{
  const FusedRow *row = row_of(problem->op);
  const char *why = row->kind == ROW_PROGRAM ? row_program_refuse(problem) : NULL;
  if (why) verdict_refuse(verdict, why);
  if (why || !priced || !row->reduction) return;
  g_autofree Chooser *chooser = g_new0(Chooser, 1);
  chooser->problem = problem;
  if (!choose_row(chooser) || !chooser->n) return;
  double rows = (double)choice_int(&chooser->variants[0], "rows", 0);
  if (rows <= 0) return;
  double results = (double)choose_typical(problem, row->rows), blocks = fmax(1, ceil(results / rows));
  double clocks = row_clocks(problem, &chooser->variants[0], blocks, results);
  if (clocks >= 0) verdict_price(verdict, clocks, NULL);
}
