/* Scans: a block takes a row, or so many short or neighbouring ones, a chunk at a time. */
#include "generator/program/scan.h"
#include "generator/choose/row.h"

static void finish(Chooser *chooser, Choice *choice, unsigned rows, unsigned columns, unsigned threads)
{
  const FusedScan *scan = scan_of(chooser->problem->op);
  choice_set_int(choice, "rows", rows);
  choice_set_int(choice, "cols", columns);
  choice_set_int(choice, "threads", threads);
  choice_set_name(choice, "element", number_name(scan->compute));
  if (number_class(scan->compute) == NUMBER_FLOAT)
    choice_set_float(choice, "identity", 0);
  else
    choice_set_int(choice, "identity", 0);
  choice_set_int(choice, "exclusive", scan->exclusive);
  choice_set_int(choice, "reverse", scan->reverse);
  choice->tile_text = arena_printf(chooser->problem->arena, "%ux%u", rows, columns);
  choice->suffix = choice->tile_text;
  choice->stages = 1;
  chooser->n++;
}

static void add_variant(Chooser *chooser, bool across, bool aligned)
{
  const Problem *problem = chooser->problem;
  const CostModel *model = problem->gpu->model;
  const FusedScan *scan = scan_of(problem->op);
  unsigned lanes = problem->gpu->warp_size;
  if (chooser->n && !chooser->variants[chooser->n - 1].guard) return;
  Choice *choice = choose_open(chooser, "row_scan");
  bool takes = across ? choose_row_runs(problem, choice) : choose_row_vectors(problem, choice, scan->columns);
  if (aligned && !takes) return;
  if (!aligned) choice = choose_open(chooser, "row_scan");
  int64_t longest = choose_maximum(problem, scan->columns);
  if (across) {
    unsigned rows = choose_row_run(problem->op);
    finish(chooser, choice, rows, choose_power_of_two(longest, lanes, model->across_chunk * lanes / rows),
           model->across_threads);
  } else if (longest <= model->short_row) {
    unsigned width = choose_power_of_two(longest, lanes, model->short_row);
    finish(chooser, choice, MAX(model->row_warps, model->short_row / width), width, model->row_warps * lanes);
  } else {
    unsigned chunk = choose_power_of_two(longest, model->row_warps * lanes, model->online_chunk);
    finish(chooser, choice, 1, chunk,
           CLAMP(chunk / model->online_elements, model->online_least, model->online_most));
  }
}

const SpaceKind *space_kind_scan(void)
{
  return NULL;
}

bool choose_scan(Chooser *chooser)
{
  bool across = choose_rows_lie_across(chooser->problem->op);
  add_variant(chooser, across, true);
  add_variant(chooser, across, false);
  return true;
}
