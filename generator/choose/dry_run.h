/* What the real passes make of a variant: asked before it is taken, so that nothing here has to know their rules. The
 * passes stand above choosing, so that whoever runs them gives the function (generator/compile/dry_run.h).
 *
 * Summaries are kept by template, parameters and what the guard has checked; types and facts are the operator's, whose
 * table it is. */
#pragma once
#include "generator/kernel/kernel.h"

typedef struct DrySummary {
  bool legal;
  bool crowded;          /* if not: less shared memory would do */
  char *why;             /* what refused it; NULL if legal */
  unsigned shared_bytes; /* of a block */
  unsigned threads;      /* of a block */
  unsigned pingpong;     /* warpgroups that take tiles in turn, where passes let them; 1: none do */
  bool waits;         /* some product is of a mechanism whose threads wait for it: of warps, not warpgroups */
  unsigned sums;      /* registers of a thread that what products add up in takes */
  unsigned registers; /* that such a thread may have */
  unsigned direct_stores; /* tiles of results that go straight from registers to memory */
} DrySummary;

/* Runs the passes on the operator's kernel for the choice. On any thread. */
typedef void (*DryRunFunction)(const FusedOperator *op, const Graph *graph, const Choice *choice,
                               DrySummary *summary, void *data);

typedef struct DryRuns DryRuns;

/* Of one operator. */
DryRuns *dry_runs_new(const FusedOperator *op, const Graph *graph, DryRunFunction run, void *data);
void dry_runs_free(DryRuns *runs);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(DryRuns, dry_runs_free)

/* The most runs for one operator. Of what is left then products take none; other families take it at its bound's word. */
#define DRY_RUNS_MOST 64

/* The summary, which lives as long as the table; NULL: there were as many runs as there may be. Asked by one thread at a
 * time, so that which choices are run never depends on threads. */
const DrySummary *dry_run(DryRuns *runs, const Choice *choice);
/* The same; where sums take more than half of a thread's registers all passes are run, which count what else lives beside them. */
const DrySummary *dry_run_registers(DryRuns *runs, const Choice *choice);
/* Runs those of the choices that are not known, on several threads; as often as dry_run() would, in this order. */
void dry_run_ahead(DryRuns *runs, const Choice *choices, unsigned n, unsigned threads);
/* Runs so far. */
unsigned dry_runs_count(const DryRuns *runs);
