#include "measure/tune.h"
#include "generator/choose/spaces.h"
#include <string.h>

/* The model's choice is kept unless another is so much faster: less is noise. */
#define WORTH_A_CHANGE  1.005
#define FIRST_PROPOSALS 8

#define tell(session, ...) bench_note((session)->note, (session)->data, __VA_ARGS__)

static const Proposal *proposal_at(const ProductProposals *product, unsigned i)
{
  return &g_array_index(product->proposals, Proposal, i);
}

static TunedEntry entry_of(const ProductProposals *product, unsigned i)
{
  TunedEntry entry = product->key;
  const Proposal *proposal = proposal_at(product, i);
  entry.parameters = (TunedParameter *)proposal->parameters;
  entry.n_parameters = proposal->n_parameters;
  entry.us = entry.first_us = 1;
  return entry;
}

/* ---- compiling: on many threads, for it is most of the work ---- */

typedef struct BuildJobs {
  const TuneSession *session;
  const BenchCase *c;
  const ProductProposals *product;
  const TunedFile *tuned;
  BenchBuild **builds;
  char **messages;
} BuildJobs;

/* A database in which the proposal answers for its product, and the winners so far for the others. */
static TunedDatabase *database_of(const BuildJobs *jobs, unsigned i)
{
  const Gpu *gpu = jobs->session->description;
  TunedDatabase *database = tuned_database_new();
  TunedFile *file = tuned_file_new(gpu);
  TunedEntry entry = entry_of(jobs->product, i);
  entry.least = entry.most = entry.m;
  for (unsigned j = 0; jobs->tuned && j < tuned_file_count(jobs->tuned); j++)
    tuned_file_put(file, tuned_file_entry(jobs->tuned, j));
  tuned_file_put(file, &entry);
  tuned_database_add(database, file, "a proposal", gpu);
  return database;
}

static void build_one(void *number, void *data)
{
  BuildJobs *jobs = data;
  unsigned i = GPOINTER_TO_UINT(number) - 1;
  GError *error = NULL;
  g_autoptr(TunedDatabase) database = database_of(jobs, i);
  TunedEntry entry = entry_of(jobs->product, i);
  g_autofree char *name = tuned_parameters_text(&entry);
  const BenchVariant variant = {.name = name, .sms = jobs->session->sms, .fixed = true, .tuned = database};
  jobs->builds[i] = bench_build_new(jobs->c, &variant, jobs->session->description, &error);
  if (error) jobs->messages[i] = g_strdup(error->message);
  g_clear_error(&error);
}

BenchBuild **tune_build(const TuneSession *session, const BenchCase *c, const ProductProposals *product,
                        unsigned n, const TunedFile *tuned, char **messages)
{
  BuildJobs jobs = {session, c, product, tuned, g_new0(BenchBuild *, n + 1), messages};
  unsigned threads = session->threads ? session->threads : g_get_num_processors();
  GThreadPool *pool = g_thread_pool_new(build_one, &jobs, (int)threads, FALSE, NULL);
  for (unsigned i = 0; i < n; i++)
    g_thread_pool_push(pool, GUINT_TO_POINTER(i + 1), NULL);
  g_thread_pool_free(pool, FALSE, TRUE);
  return jobs.builds;
}

/* ---- one product ---- */

static unsigned kind_value(const Proposal *proposal, const char *name, bool within)
{
  for (unsigned i = 0; i < proposal->n_parameters; i++)
    if (!strcmp(proposal->parameters[i].name, name))
      return within ? MIN(proposal->parameters[i].value, 2) : proposal->parameters[i].value;
  return 0;
}

/* Does each parameter of `a` say the same of `b`? Of those that the templates call alike any two values above 1 are of
 * one kind. */
static bool kind_includes(const Spaces *spaces, const Proposal *a, const Proposal *b)
{
  for (unsigned i = 0; i < a->n_parameters; i++) {
    const char *name = a->parameters[i].name;
    bool within = spaces_alike(spaces, name);
    if (kind_value(a, name, within) != kind_value(b, name, within)) return false;
  }
  return true;
}

/* Of each kind of tile only the first `each`. The caller owns the list. */
static GArray *of_kinds(const Spaces *spaces, const GArray *proposals, unsigned each)
{
  GArray *list = g_array_new(FALSE, FALSE, sizeof(Proposal));
  for (unsigned i = 0; i < proposals->len; i++) {
    const Proposal *proposal = &g_array_index(proposals, Proposal, i);
    unsigned alike = 0;
    for (unsigned j = 0; j < list->len; j++) {
      const Proposal *other = &g_array_index(list, Proposal, j);
      alike += kind_includes(spaces, proposal, other) && kind_includes(spaces, other, proposal);
    }
    if (alike < each) g_array_append_val(list, *proposal);
  }
  return list;
}

static unsigned count_proposals(const TuneSession *session, const ProductProposals *product)
{
  unsigned n = product->proposals->len;
  if (session->top) n = MIN(n, session->top);
  double best = n > 1 ? MIN(proposal_at(product, 0)->clocks, proposal_at(product, 1)->clocks) : 0;
  while (session->slack > 0 && n > 1 && proposal_at(product, n - 1)->clocks > session->slack * best)
    n--;
  return n;
}

/* The fastest of those measured thoroughly; the model's choice where nothing is clearly faster. */
static unsigned find_winner(const TuneTime *times, unsigned n)
{
  unsigned winner = 0;
  for (unsigned i = 1; i < n; i++)
    if (times[i].thorough && (isnan(times[winner].us) || times[i].us < times[winner].us)) winner = i;
  return winner && times[0].us <= times[winner].us * WORTH_A_CHANGE ? 0 : winner;
}

static json_t *parameters_json(const ProductProposals *product, unsigned i)
{
  const Proposal *proposal = proposal_at(product, i);
  json_t *json = json_object();
  for (unsigned j = 0; j < proposal->n_parameters; j++)
    json_object_set_new(json, proposal->parameters[j].name, json_integer(proposal->parameters[j].value));
  return json;
}

static json_t *time_json(const ProductProposals *product, unsigned i, const TuneTime *time)
{
  json_t *json = json_pack("{s:o, s:f}", "parameters", parameters_json(product, i), "clocks",
                           proposal_at(product, i)->clocks);
  if (isfinite(time->us)) {
    json_object_set_new(json, "us", json_real(time->us));
    json_object_set_new(json, "spread", json_real(time->spread));
    json_object_set_new(json, "thorough", json_boolean(time->thorough));
  } else {
    json_object_set_new(json, "message", json_string(time->message ? time->message : "not measured"));
  }
  return json;
}

static json_t *extents_json(const TunedEntry *key)
{
  if (!key->n_extents)
    return json_pack("{s:I, s:I, s:I, s:I}", "batches", (json_int_t)key->batches, "m", (json_int_t)key->m,
                     "n", (json_int_t)key->n, "k", (json_int_t)key->k);
  json_t *extents = json_array();
  for (unsigned i = 0; i < key->n_extents; i++)
    json_array_append_new(extents, json_integer(key->extents[i]));
  return json_pack("{s:o}", "extents", extents);
}

static json_t *product_json(const TuneLine *line)
{
  const TunedEntry *key = &line->product->key;
  json_t *list = json_array();
  for (unsigned i = 0; i < line->n; i++)
    json_array_append_new(list, time_json(line->product, i, &line->times[i]));
  json_t *json = json_pack("{s:s, s:s, s:s, s:i, s:i, s:o}", "case", line->c->name, "operator",
                           line->product->name, "product", key->product, "sms", (int)key->sms, "winner",
                           (int)line->winner, "proposals", list);
  json_object_update_new(json, extents_json(key));
  return json;
}

static void keep_winner(const TuneSession *session, const TuneLine *line, TunedFile *file)
{
  const TuneTime *best = &line->times[line->winner], *first = &line->times[0];
  if (isnan(best->us) || first->us < session->gain * best->us) return;
  TunedEntry entry = entry_of(line->product, line->winner);
  entry.us = best->us;
  entry.first_us = isnan(first->us) ? best->us : first->us;
  tuned_file_put(file, &entry);
}

static bool tune_product(const TuneSession *session, const BenchCase *c, const ProductProposals *product,
                         TunedFile *file, json_t *products, GError **error)
{
  unsigned n = count_proposals(session, product);
  g_autofree TuneTime *times = g_new0(TuneTime, n + 1);
  g_autofree char **messages = g_new0(char *, n + 1);
  if (session->begin) session->begin(c, product, n, session->data);
  TuneWork work = {.c = c, .product = product, .n = n};
  if (session->clock.wants_builds) work.builds = tune_build(session, c, product, n, file, messages);
  for (unsigned i = 0; i < n; i++) {
    times[i].us = NAN;
    times[i].message = messages[i];
  }
  bool ok = session->clock.measure(session->clock.data, &work, times, error);
  TuneLine line = {.c = c, .product = product, .n = n, .times = times, .winner = find_winner(times, n)};
  for (unsigned i = 0; i < n; i++)
    line.n_failed += isnan(times[i].us);
  if (ok) {
    json_array_append_new(products, product_json(&line));
    keep_winner(session, &line, file);
    if (session->line) session->line(&line, session->data);
  }
  for (unsigned i = 0; i < n; i++) {
    if (times[i].message && ok) {
      TunedEntry entry = entry_of(product, i);
      g_autofree char *text = tuned_parameters_text(&entry);
      tell(session, "%s: %s: %s", c->name, text, times[i].message);
    }
    g_free(times[i].message);
    if (work.builds) bench_build_free(work.builds[i]);
  }
  g_free(work.builds);
  return ok;
}

/* ---- all ---- */

static bool tune_case(const TuneSession *session, const BenchCase *c, TunedFile *file, json_t *products,
                      GError **error)
{
  const CompileOptions options = {.sm_budget = session->sms, .accumulate = c->accumulate};
  g_autoptr(Proposals) proposals = generator_propose(c->graph, session->description, &options, error);
  g_autoptr(Spaces) spaces = proposals ? spaces_read(error) : NULL;
  if (!spaces) return false;
  if (!proposals->products->len) tell(session, "%s: no operator has a second way to compute it", c->name);
  for (unsigned i = 0; i < proposals->products->len; i++) {
    ProductProposals product = *(const ProductProposals *)proposals->products->pdata[i];
    g_autoptr(GArray) kinds = session->kinds ? of_kinds(spaces, product.proposals, session->kinds) : NULL;
    if (kinds) product.proposals = kinds;
    if (!tune_product(session, c, &product, file, products, error)) return false;
  }
  return true;
}

/* As of files of choices: 1 where all are products. */
static int result_version(const json_t *products)
{
  int version = 1;
  size_t i;
  json_t *product;
  json_array_foreach(products, i, product) if (json_object_get(product, "extents")) version = TUNED_VERSION;
  return version;
}

json_t *tune_run(const TuneSession *session, TunedFile *file, GError **error)
{
  json_t *products = json_array();
  gint64 start = g_get_monotonic_time();
  unsigned skipped = 0;
  for (unsigned i = 0; i < session->n_cases; i++) {
    double spent = (double)(g_get_monotonic_time() - start) * 1e-6;
    if (session->seconds > 0 && spent > session->seconds) {
      skipped = session->n_cases - i;
      tell(session, "%u cases were not begun: the time was over", skipped);
      break;
    }
    if (tune_case(session, session->cases[i], file, products, error)) continue;
    json_decref(products);
    return NULL;
  }
  json_t *choice = tune_choice(products);
  return json_pack("{s:i, s:s, s:i, s:o, s:o}", "version", result_version(products), "gpu",
                   session->description->name, "skipped", (int)skipped, "products", products, "choice",
                   choice);
}

static double us_of(const json_t *proposals, size_t i)
{
  const json_t *us = json_object_get(json_array_get(proposals, i), "us");
  return us ? json_number_value(us) : NAN;
}

json_t *tune_choice(const json_t *products)
{
  double first = 0, top = 0;
  unsigned n = 0;
  size_t i;
  json_t *product;
  json_array_foreach(products, i, product)
  {
    const json_t *proposals = json_object_get(product, "proposals");
    double best = INFINITY, few = INFINITY, own = us_of(proposals, 0);
    for (size_t j = 0; j < json_array_size(proposals); j++) {
      double us = us_of(proposals, j);
      best = fmin(best, us);
      if (j < FIRST_PROPOSALS) few = fmin(few, us);
    }
    if (!isfinite(own)) continue;
    first += log(best / own);
    top += log(best / few);
    n++;
  }
  if (!n) return json_pack("{s:i}", "products", 0);
  return json_pack("{s:i, s:f, s:f}", "products", (int)n, "first", exp(first / n), "best_of_8", exp(top / n));
}

/* ---- clocks that need no GPU ---- */

static bool assemble(void *data, const TuneWork *work, TuneTime *times, GError **error)
{
  TuneAssembler *assembler = data;
  bench_build_assemble(work->builds, work->n, assembler->assembler, assembler->threads,
                       &assembler->n_assembled, &assembler->n_failed);
  return true;
}

TuneClock tune_assembler_clock(TuneAssembler *assembler)
{
  return (TuneClock){.wants_builds = true, .measure = assemble, .data = assembler};
}

static const json_t *find_product(const json_t *result, const TuneWork *work)
{
  size_t i;
  json_t *product;
  json_array_foreach(json_object_get(result, "products"), i, product)
  {
    const char *name = json_string_value(json_object_get(product, "case")),
               *operator_ = json_string_value(json_object_get(product, "operator")),
               *text = json_string_value(json_object_get(product, "product"));
    /* cases of one name may differ in what their sums keep, which the product's text says */
    if (!g_strcmp0(name, work->c->name) && !g_strcmp0(operator_, work->product->name) &&
        (!text || !strcmp(text, work->product->key.product)) &&
        json_integer_value(json_object_get(product, "sms")) == (json_int_t)work->product->key.sms)
      return product;
  }
  return NULL;
}

static bool recall(void *data, const TuneWork *work, TuneTime *times, GError **error)
{
  const json_t *product = find_product(data, work), *list = json_object_get(product, "proposals");
  for (unsigned i = 0; i < work->n; i++) {
    json_t *wanted = parameters_json(work->product, i);
    for (size_t j = 0; j < json_array_size(list); j++) {
      const json_t *known = json_array_get(list, j);
      if (!json_equal(json_object_get(known, "parameters"), wanted)) continue;
      times[i].us = us_of(list, j);
      times[i].spread = json_number_value(json_object_get(known, "spread"));
      times[i].thorough = json_is_true(json_object_get(known, "thorough"));
    }
    if (isnan(times[i].us) && !times[i].message)
      times[i].message =
          g_strdup(product ? "the recording has no time of it" : "the recording lacks the case");
    json_decref(wanted);
  }
  return true;
}

TuneClock tune_recorded_clock(const json_t *result)
{
  return (TuneClock){.measure = recall, .data = (void *)result};
}
