#include "generator/choose/dry_run.h"
#include "base/parallel.h"

struct DryRuns {
  const FusedOperator *op;
  const Graph *graph;
  DryRunFunction run;
  void *data;
  GHashTable *known; /* DrySummary *, by key_of() */
  unsigned count;
};

static void summary_free(void *memory)
{
  DrySummary *summary = memory;
  g_free(summary->why);
  g_free(summary);
}

DryRuns *dry_runs_new(const FusedOperator *op, const Graph *graph, DryRunFunction run, void *data)
{
  DryRuns *runs = g_new0(DryRuns, 1);
  *runs = (DryRuns){.op = op, .graph = graph, .run = run, .data = data};
  runs->known = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, summary_free);
  return runs;
}

void dry_runs_free(DryRuns *runs)
{
  if (!runs) return;
  g_hash_table_unref(runs->known);
  g_free(runs);
}

static void add_assumption(GString *key, const Assumption *assumption)
{
  g_autofree char *text = symbolic_text(assumption->expression);
  g_string_append_printf(key, " %s %" G_GINT64_FORMAT " %" G_GINT64_FORMAT, text, assumption->multiple,
                         assumption->maximum);
}

/* All that a kernel is written from but its name, and what is for people. */
static char *key_of(const Choice *choice)
{
  GString *key = g_string_new(choice->template_name);
  for (unsigned i = 0; i < choice->n_parameters; i++) {
    const ChoiceParameter *parameter = &choice->parameters[i];
    if (parameter->kind == EXPR_NAME)
      g_string_append_printf(key, " %s=%s", parameter->name, parameter->text);
    else
      g_string_append_printf(key, " %s=%" G_GINT64_FORMAT, parameter->name, parameter->integer);
  }
  for (unsigned i = 0; i < choice->n_assumptions; i++)
    add_assumption(key, &choice->assumptions[i]);
  for (const ChoiceAlign *known = choice->aligned; known; known = known->next)
    g_string_append_printf(key, " %s:%u", known->tensor->name, choice_align(choice, known->tensor));
  g_string_append_printf(key, " %u%u%u %" G_GINT64_MODIFIER "x", choice->warpgroups, choice->keep_a,
                         choice->exact, choice->single);
  return g_string_free(key, FALSE);
}

/* A new summary, still empty, of a choice that may be run; NULL: it is known, or there were too many. */
static DrySummary *open_run(DryRuns *runs, const Choice *choice)
{
  g_autofree char *key = key_of(choice);
  if (runs->count == DRY_RUNS_MOST || g_hash_table_contains(runs->known, key)) return NULL;
  DrySummary *summary = g_new0(DrySummary, 1);
  g_hash_table_insert(runs->known, g_steal_pointer(&key), summary);
  runs->count++;
  return summary;
}

const DrySummary *dry_run(DryRuns *runs, const Choice *choice)
{
  DrySummary *summary = open_run(runs, choice);
  g_autofree char *key = key_of(choice);
  if (summary) runs->run(runs->op, runs->graph, choice, summary, runs->data);
  return g_hash_table_lookup(runs->known, key);
}

const DrySummary *dry_run_registers(DryRuns *runs, const Choice *choice)
{
  const DrySummary *summary = dry_run(runs, choice), *whole;
  if (!summary || !summary->legal || 2 * summary->sums <= summary->registers) return summary;
  Choice exact = *choice;
  exact.exact = true;
  whole = dry_run(runs, &exact);
  return whole && !whole->legal ? whole : summary; /* the last passes leave no roles to read registers from */
}

typedef struct {
  const DryRuns *runs;
  GPtrArray *choices, *summaries; /* of those that are run */
} Ahead;

static void run_ahead(unsigned i, void *data)
{
  const Ahead *ahead = data;
  const DryRuns *runs = ahead->runs;
  runs->run(runs->op, runs->graph, ahead->choices->pdata[i], ahead->summaries->pdata[i], runs->data);
}

void dry_run_ahead(DryRuns *runs, const Choice *choices, unsigned n, unsigned threads)
{
  g_autoptr(GPtrArray) opened = g_ptr_array_new(), summaries = g_ptr_array_new();
  for (unsigned i = 0; i < n; i++) {
    DrySummary *summary = open_run(runs, &choices[i]);
    if (!summary) continue;
    g_ptr_array_add(opened, (gpointer)&choices[i]);
    g_ptr_array_add(summaries, summary);
  }
  Ahead ahead = {runs, opened, summaries};
  parallel_for(opened->len, threads, run_ahead, &ahead);
}

unsigned dry_runs_count(const DryRuns *runs)
{
  return runs->count;
}
