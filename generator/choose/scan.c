/* Scans: a block takes a row, or so many short or neighbouring ones, a chunk at a time. */
#include "generator/program/scan.h"
#include "generator/choose/row.h"

static bool add_variant(Chooser *chooser, bool across, bool aligned)
{
  const Problem *problem = chooser->problem;
  const FusedScan *scan = scan_of(problem->op);
  if (chooser->n && !chooser->variants[chooser->n - 1].guard) return true;
  Choice *choice = choose_open(chooser, "row_scan");
  bool takes = across ? choose_row_runs(problem, choice) : choose_row_vectors(problem, choice, scan->columns);
  if (aligned && !takes) return true;
  if (!aligned) choice = choose_open(chooser, "row_scan");
  choice_set_name(choice, "element", number_name(scan->compute));
  if (number_class(scan->compute) == NUMBER_FLOAT)
    choice_set_float(choice, "identity", 0);
  else
    choice_set_int(choice, "identity", 0);
  choice_set_int(choice, "exclusive", scan->exclusive);
  choice_set_int(choice, "reverse", scan->reverse);
  return choose_row_block(
      chooser, choice,
      (RowAsked){choose_maximum(problem, scan->columns), across ? choose_row_run(problem->op) : 0});
}

const SpaceKind *space_kind_scan(void)
{
  return &row_block_kind;
}

bool choose_scan(Chooser *chooser)
{
  bool across = choose_rows_lie_across(chooser->problem->op);
  return add_variant(chooser, across, true) && add_variant(chooser, across, false);
}
