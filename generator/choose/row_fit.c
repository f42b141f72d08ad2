#include "generator/choose/row_fit.h"
#include "generator/program/row.h"
#include <stddef.h>

typedef enum { CARRIED_ALWAYS, CARRIED_NEEDED /* where its value is not the absent one */ } Carried;

static const Axis axes[] = {{"rows", 1},
                            {"cols", 1},
                            {"threads", 1},
                            {"blocks", 1},
                            {"split_k", 1, CARRIED_NEEDED},
                            {"again"},
                            {"late", 0, CARRIED_NEEDED},
                            {"chunk", 0, CARRIED_NEEDED},
                            {"slots", 0, CARRIED_NEEDED}};
G_STATIC_ASSERT(offsetof(RowFit, rows) == offsetof(RowFit, of.values));
G_STATIC_ASSERT(offsetof(RowFit, slots) == offsetof(RowFit, of.values[G_N_ELEMENTS(axes) - 1]));

bool row_is_budgeted(const Problem *problem)
{
  return problem->options && problem->options->sm_budget;
}

#define FACTS            "generator/choose/row_facts.def"
#define FACT_NAMES       static const char *const facts
#define FACT_TRIED_NAMES static const char *const tried_facts
#define FACT_ARGUMENTS   const Problem *problem, const RowTried *tried
#define FACT_LOCALS
#include "generator/choose/fact_table.h"

const SpaceKind *space_kind_row(void)
{
  static const SpaceKind kind = SPACE_KIND("row", axes, NULL, true);
  return &kind;
}

int64_t *row_fact_values(const Problem *problem, const RowTried *tried)
{
  return fact_values(problem, tried);
}

RowFit row_fit_of(const Problem *problem, unsigned rows, unsigned cols, unsigned threads)
{
  RowFit tile = {.of = candidate_absent(spaces_of(problem->spaces, "row"))};
  tile.rows = rows;
  tile.cols = cols;
  tile.threads = threads;
  return tile;
}

static bool is_carried(const Candidate *candidate, unsigned slot, const void *data)
{
  return slot >= G_N_ELEMENTS(axes) || axes[slot].carried == CARRIED_ALWAYS ||
         candidate->values[slot] != axes[slot].absent;
}

void row_fit_carry(const RowFit *tile, Choice *choice)
{
  candidate_carry(&tile->of, choice, is_carried, NULL);
}
