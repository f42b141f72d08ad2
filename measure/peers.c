/* Competitors of a case: all that they offer for it is measured shortly, the fastest that is right is timed
 * with ours. */
#include "measure/case_run.h"
#include "measure/plugin.h"
#include <string.h>

bool bench_is_peer(const char *kind)
{
  return kind && (!strcmp(kind, "cublaslt") || !strcmp(kind, "plugin"));
}

/* The fastest of those that are left, by a short measurement of each. */
static unsigned find_fastest(CaseRun *run, GPtrArray *offers)
{
  const BenchTimingOptions options = {.rounds = 2, .short_us = run->session->timing.short_us};
  if (offers->len < 2) return 0;
  g_autoptr(BenchTimings) timings =
      bench_time(run->session->gpu, (BenchCandidate *const *)(void *)offers->pdata, offers->len, 1,
                 BENCH_COLD, &options, NULL);
  unsigned fastest = 0;
  for (unsigned i = 1; timings && i < offers->len; i++)
    if (timings->of[i].median < timings->of[fastest].median) fastest = i;
  return fastest;
}

/* Takes an offer out of the list and, if it is right, into the case. */
static bool take(CaseRun *run, GPtrArray *offers, unsigned index, const char *kind)
{
  g_autoptr(BenchCandidate) offer = g_ptr_array_steal_index(offers, index);
  GError *error = NULL;
  json_t *check = NULL;
  if (case_check(run, run->tensors, offer, &check, &error)) {
    case_add(run, g_steal_pointer(&offer), kind, check);
    run->n_peers++;
    return true;
  }
  json_decref(check);
  if (error) case_fail(run, offer->name, error->message);
  g_clear_error(&error);
  return false;
}

static void take_fastest(CaseRun *run, GPtrArray *offers, const char *kind)
{
  bool taken = false;
  while (!taken && offers->len)
    taken = take(run, offers, find_fastest(run, offers), kind);
}

/* cuBLASLt's heuristic is itself a competitor: its first choice stays in the table. */
static void add_cublaslt(CaseRun *run)
{
  const BenchSession *session = run->session;
  GError *error = NULL;
  if (!session->cublaslt || !run->c->is_product) return;
  g_autoptr(GPtrArray) offers = cublaslt_candidates(session->cublaslt, run->tensors, &error);
  if (!offers) {
    tell(session, "%s: %s", run->c->name, error->message);
    g_clear_error(&error);
    return;
  }
  json_object_set_new(run->json, "cublaslt_algorithms", json_integer(offers->len));
  unsigned fastest = session->all_algorithms ? find_fastest(run, offers) : 0;
  bool taken = fastest && take(run, offers, fastest, "cublaslt");
  if (offers->len) take(run, offers, 0, "cublaslt");
  if (fastest && !taken) take_fastest(run, offers, "cublaslt");
}

static void add_plugin(CaseRun *run, BenchPlugin *plugin)
{
  const BenchSession *session = run->session;
  g_autoptr(GPtrArray) offers = g_ptr_array_new_with_free_func((GDestroyNotify)bench_candidate_free);
  GError *error = NULL;
  unsigned n = bench_plugin_count(plugin, session->gpu, run->c, &error);
  if (!n) tell(session, "%s: %s", run->c->name, error->message);
  g_clear_error(&error);
  if (!session->all_algorithms) n = MIN(n, 1);
  for (unsigned i = 0; i < n; i++) {
    g_autofree char *name = bench_plugin_variant_name(plugin, session->gpu, run->c, i);
    if (session->peer_variants && !g_regex_match(session->peer_variants, name, 0, NULL)) continue;
    BenchCandidate *offer = bench_plugin_candidate(plugin, i, run->tensors, &error);
    if (offer) g_ptr_array_add(offers, offer);
    if (error) tell(session, "%s: %s", run->c->name, error->message);
    g_clear_error(&error);
  }
  take_fastest(run, offers, "plugin");
}

void case_add_peers(CaseRun *run)
{
  add_cublaslt(run);
  for (unsigned i = 0; i < run->session->n_plugins; i++)
    add_plugin(run, run->session->plugins[i]);
}
