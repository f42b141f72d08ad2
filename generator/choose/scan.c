/* Scans: a block takes a row, or so many short or neighbouring ones, a chunk at a time. */
#include "generator/program/scan.h"
#include "generator/choose/row.h"

#define ACROSS_BLOCKS 2 /* that an SM has where lanes have several rows each */

/* Neighbouring rows that a block scans: one a lane, or two where SMs have blocks enough and registers hold them. */
static unsigned run_of(const Problem *problem)
{
  const FusedScan *scan = scan_of(problem->op);
  const unsigned lanes = problem->gpu->warp_size;
  int64_t rows = choose_typical(problem, scan->rows),
          blocks = (int64_t)ACROSS_BLOCKS * problem->gpu->sm_count;
  return number_bits(scan->compute) <= number_bits(NUMBER_F32) && rows >= 2 * lanes * blocks ? 2 * lanes
                                                                                             : lanes;
}

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
  return choose_row_block(chooser, choice,
                          (RowAsked){choose_maximum(problem, scan->columns), across ? run_of(problem) : 0});
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
