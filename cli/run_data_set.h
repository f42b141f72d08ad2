/* adlgen run --data: what it was given, and what came of the comparison. */
#pragma once
#include "cli/cli.h"
#include "execute/data_set.h"

typedef struct RunDataSet {
  const char *folder;
  DataSet *data; /* NULL without --data */
  GraphOffer *offers;
  unsigned n_offers;
  double rtol, atol;
  DataSetComparison *comparisons; /* as the graph's outputs; NULL: not compared */
  unsigned n_comparisons;
} RunDataSet;

bool run_data_set_of_options(const Arguments *arguments, RunDataSet *set, GError **error);
/* Does nothing without --data. */
bool run_data_set_load(RunDataSet *set, Source *model, GError **error);
void run_data_set_clear(RunDataSet *set);
void run_data_set_compare(RunDataSet *set, const RunData *data, Arena *arena);
/* Every output is as it is to be, or was not compared. */
bool run_data_set_passes(const RunDataSet *set);
void run_data_set_print(const RunDataSet *set, const Cli *cli, const Graph *graph);
json_t *run_data_set_json(const RunDataSet *set, const Graph *graph);
