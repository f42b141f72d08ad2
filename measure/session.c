#include "measure/case_run.h"
#include "measure/gpu_private.h"
#include "measure/plugin.h"
#include <string.h>

#define MOST_SETS 64

/* ---- candidates ---- */

void case_add(CaseRun *run, BenchCandidate *candidate, const char *kind, json_t *check)
{
  g_ptr_array_add(run->candidates, candidate);
  json_t *json =
      json_pack("{s:s, s:s, s:O?}", "name", candidate->name, "kind", kind, "facts", candidate->facts);
  if (check) json_object_set_new(json, "check", check);
  json_array_append_new(run->list, json);
}

void case_fail(CaseRun *run, const char *name, const char *message)
{
  json_t *failures = json_object_get(run->json, "failures");
  json_array_append_new(failures, json_pack("{s:s, s:s}", "candidate", name, "message", message));
  tell(run->session, "%s: %s: %s", run->c->name, name, message);
  ++*run->n_wrong;
}

bool case_check(CaseRun *run, const BenchTensors *tensors, BenchCandidate *candidate, json_t **json,
                GError **error)
{
  BenchCheck check;
  bool ok = bench_check(run->session->gpu, tensors, candidate, run->session->reference,
                        tensors == run->tensors ? &run->agreed : NULL, &check, error);
  if (ok) {
    *json = json_pack("{s:b, s:o, s:f, s:s?}", "ok", check.ok, "error",
                      isfinite(check.error) ? json_real(check.error) : json_null(), "limit", check.limit,
                      "method", check.method);
    if (!check.ok) case_fail(run, candidate->name, check.message);
    ok = check.ok;
  }
  bench_check_clear(&check);
  return ok;
}

/* A kernel of ours that computes what `tensors` are of; counted in n. */
static void add_ours(CaseRun *run, BenchBuild *build, const BenchTensors *tensors, const char *kind,
                     unsigned *n, BenchCode *code)
{
  GError *error = NULL;
  json_t *check = NULL;
  g_autofree char *name = g_strdup(bench_build_name(build));
  BenchCandidate *candidate = bench_candidate_new(build, code, tensors, &error);
  if (candidate && case_check(run, tensors, candidate, &check, &error)) {
    case_add(run, candidate, kind, check);
    ++*n;
    return;
  }
  json_decref(check);
  bench_candidate_free(candidate);
  if (error) case_fail(run, name, error->message);
  g_clear_error(&error);
}

/* ---- floors: what the machine does at least for such a case ---- */

typedef struct Floor {
  BenchGpu *gpu;
  uint64_t from, to, bytes;
  unsigned grid[3], block[3], shared;
} Floor;

static const unsigned no_cluster[3] = {1, 1, 1};

static bool queue_copy(BenchCandidate *candidate, unsigned set, GError **error)
{
  const Floor *floor = candidate->data;
  return bench_gpu_copy(floor->gpu, floor->to, floor->from, floor->bytes, error);
}

static bool queue_empty(BenchCandidate *candidate, unsigned set, GError **error)
{
  const Floor *floor = candidate->data;
  return bench_gpu_empty(floor->gpu, floor->grid, floor->block, no_cluster, floor->shared, error);
}

static void release_floor(BenchCandidate *candidate)
{
  Floor *floor = candidate->data;
  device_release(bench_gpu_device(floor->gpu), floor->from);
  device_release(bench_gpu_device(floor->gpu), floor->to);
  g_free(floor);
}

static void add_floor(CaseRun *run, const char *name, Floor floor,
                      bool (*queue)(BenchCandidate *candidate, unsigned set, GError **error))
{
  BenchCandidate *candidate = g_new0(BenchCandidate, 1);
  candidate->name = g_strdup(name);
  candidate->queue = queue;
  candidate->release = release_floor;
  candidate->data = g_memdup2(&floor, sizeof floor);
  case_add(run, candidate, "floor", NULL);
}

/* A copy that moves as many bytes, and an empty kernel of the first kernel's shape. */
static void add_floors(CaseRun *run)
{
  BenchGpu *gpu = run->session->gpu;
  Device *device = bench_gpu_device(gpu);
  Floor copy = {.gpu = gpu, .bytes = MAX((uint64_t)(run->c->bytes / 2), 16)};
  copy.from = device_allocate(device, copy.bytes, NULL);
  copy.to = device_allocate(device, copy.bytes, NULL);
  if (copy.from && copy.to && bench_gpu_fill(gpu, copy.from, NUMBER_U8, copy.bytes, 7, NULL))
    add_floor(run, "copy", copy, queue_copy);
  BenchCandidate *first = run->candidates->pdata[0];
  json_t *kernel = json_array_get(json_object_get(first->facts, "kernels"), 0),
         *grid = json_object_get(kernel, "grid");
  if (!run->n_ours || !kernel) return;
  Floor empty = {.gpu = gpu,
                 .block = {(unsigned)json_integer_value(json_object_get(kernel, "threads")), 1, 1},
                 .shared = (unsigned)json_integer_value(json_object_get(kernel, "shared"))};
  for (unsigned i = 0; i < 3; i++)
    empty.grid[i] = (unsigned)json_integer_value(json_array_get(grid, i));
  add_floor(run, "empty", empty, queue_empty);
}

/* ---- timing ---- */

static json_t *number_json(double value)
{
  return isfinite(value) ? json_real(value) : json_null();
}

static json_t *timing_json(const CaseRun *run, const BenchTimings *timings, unsigned i, double roof)
{
  const BenchTiming *t = &timings->of[i];
  json_t *rounds = json_array();
  for (unsigned j = 0; j < timings->n_rounds; j++)
    json_array_append_new(rounds, json_real(t->rounds[j]));
  json_t *json = json_pack("{s:s, s:f, s:f, s:f, s:f, s:o, s:o, s:o, s:o}", "candidate",
                           ((BenchCandidate *)run->candidates->pdata[i])->name, "us", t->median, "spread",
                           t->spread, "ratio", bench_ratio(timings, 0, i), "roof_fraction", roof / t->median,
                           "rounds", rounds, "clock_mhz", number_json(t->clock_mhz), "clock_low_mhz",
                           number_json(t->clock_low_mhz), "watts", number_json(t->watts));
  return json;
}

static void report_mode(CaseRun *run, BenchMode mode, const BenchTimings *timings)
{
  const BenchSession *session = run->session;
  double roof = bench_roof(run->ceilings, run->c);
  json_t *list = json_array();
  for (unsigned i = 0; i < timings->n; i++) {
    json_array_append_new(list, timing_json(run, timings, i, roof));
    BenchLine line = {.c = run->c,
                      .mode = bench_mode_name(mode),
                      .candidate = ((BenchCandidate *)run->candidates->pdata[i])->name,
                      .timing = &timings->of[i],
                      .roof_us = roof,
                      .ratio = bench_ratio(timings, 0, i),
                      .is_first = i == 0};
    if (session->line) session->line(&line, session->data);
  }
  json_object_set_new(json_object_get(run->json, "modes"), bench_mode_name(mode),
                      json_pack("{s:s, s:o}", "method", timings->method, "times", list));
}

static bool time_case(CaseRun *run, GError **error)
{
  const BenchSession *session = run->session;
  for (unsigned mode = 0; mode < BENCH_MODE_COUNT; mode++) {
    if (!(session->modes >> mode & 1)) continue;
    BenchTimingOptions options = session->timing;
    unsigned n = run->candidates->len;
    options.contenders = run->n_ours + run->n_peers;
    if (mode == BENCH_SUSTAINED) {
      options.rounds = 2;
      n = run->n_ours + run->n_peers;
    }
    g_autoptr(BenchTimings) timings =
        bench_time(session->gpu, (BenchCandidate *const *)(void *)run->candidates->pdata, n,
                   run->tensors->n_sets, mode, &options, error);
    if (!timings) return false;
    report_mode(run, mode, timings);
  }
  return true;
}

/* ---- a case ---- */

/* Enough copies of the tensors that one round over them leaves nothing of the first in L2. */
static unsigned sets_of(const BenchSession *session, const BenchCase *c)
{
  if (!(session->modes >> BENCH_SUSTAINED & 1)) return 1;
  double wanted = ceil(2.0 * (double)bench_gpu_l2(session->gpu) / c->bytes) + 1;
  double room = floor((double)bench_gpu_free_memory(session->gpu) * 0.5 / c->held);
  return (unsigned)CLAMP(MIN(wanted, room), 1, MOST_SETS);
}

static json_t *case_json(const BenchCase *c, double roof)
{
  json_t *dims = json_object();
  for (unsigned i = 0; i < c->n_bindings; i++)
    json_object_set_new(dims, c->bindings[i].name, json_integer(c->bindings[i].value));
  return json_pack("{s:s, s:s, s:s, s:o, s:f, s:f, s:f, s:{}, s:[]}", "name", c->name, "class", c->class_,
                   "graph", c->graph->name, "dims", dims, "bytes", c->bytes, "flops", c->flops, "roof_us",
                   roof, "modes", "failures");
}

static bool measure(CaseRun *run, BenchBuild **builds, unsigned n, BenchCode *code, GError **error)
{
  const BenchSession *session = run->session;
  unsigned sets = sets_of(session, run->c);
  run->tensors = bench_tensors_new(session->gpu, run->c, sets, error);
  if (!run->tensors) return false;
  for (unsigned i = 0; i < n; i++)
    if (builds[i]) add_ours(run, g_steal_pointer(&builds[i]), run->tensors, "adlgen", &run->n_ours, code);
  if (builds[n]) {
    run->product_tensors = bench_tensors_new(session->gpu, run->product, sets, error);
    if (!run->product_tensors) return false;
    add_ours(run, g_steal_pointer(&builds[n]), run->product_tensors, "product", &run->n_peers, code);
  }
  case_add_peers(run);
  if (!run->candidates->len) return true;
  add_floors(run);
  return time_case(run, error) && case_profile(run, error);
}

/* Only a machine that no longer answers ends the session: what one case cannot have is its own fault. */
static bool run_case(CaseRun *run, BenchBuild **builds, unsigned n, BenchCode *code, GError **error)
{
  GError *fault = NULL;
  bool ok = measure(run, builds, n, code, &fault);
  json_object_set(run->json, "candidates", run->list);
  g_ptr_array_unref(run->candidates);
  if (run->agreed) g_ptr_array_unref(run->agreed);
  bench_tensors_free(run->tensors);
  bench_tensors_free(run->product_tensors);
  if (ok) return true;
  case_fail(run, "bench", fault->message);
  if (device_wait(bench_gpu_device(run->session->gpu), NULL)) {
    g_error_free(fault);
    return true;
  }
  g_propagate_error(error, fault);
  return false;
}

static BenchBuild *build_one(const BenchSession *session, const BenchCase *c, const BenchVariant *variant,
                             json_t *json, unsigned *n_wrong)
{
  GError *error = NULL;
  BenchBuild *build = bench_build_new(c, variant, session->description, &error);
  if (build) return build;
  json_array_append_new(json_object_get(json, "failures"),
                        json_pack("{s:s, s:s}", "candidate", variant->name, "message", error->message));
  tell(session, "%s: %s: %s", c->name, variant->name, error->message);
  g_error_free(error);
  ++*n_wrong;
  return NULL;
}

/* Ours, one a variant, and last the case's product alone (NULL: none), whose case goes to *product. */
static void build_case(const BenchSession *session, const BenchCase *c, json_t *json, BenchBuild **builds,
                       BenchCase **product, unsigned *n_wrong)
{
  BenchVariant plain = {
      .name = (char *)"adlgen", .fixed = session->fixed, .sms = session->sms, .tuned = session->tuned};
  for (unsigned i = 0; i <= session->n_variants; i++)
    builds[i] = build_one(session, c, i ? session->variants[i - 1] : &plain, json, n_wrong);
  if (!session->product) return;
  GError *error = NULL;
  *product = bench_case_product(c, &error);
  plain.name = (char *)"product";
  if (*product) builds[session->n_variants + 1] = build_one(session, *product, &plain, json, n_wrong);
  if (error) tell(session, "without its product: %s", error->message);
  g_clear_error(&error);
}

/* ---- the session ---- */

static uint64_t operand_types(const BenchSession *session)
{
  uint64_t types = 0;
  for (unsigned i = 0; i < session->n_cases; i++)
    if (session->cases[i]->flops > 0) types |= UINT64_C(1) << session->cases[i]->operand;
  return types;
}

static json_t *ceilings_json(const BenchCeilings *ceilings)
{
  json_t *warp = json_object(), *group = json_object();
  for (unsigned i = 0; i < NUMBER_TYPE_COUNT; i++) {
    if (ceilings->warp_mma[i] > 0)
      json_object_set_new(warp, number_name(i), json_real(ceilings->warp_mma[i]));
    if (ceilings->warpgroup_mma[i] > 0)
      json_object_set_new(group, number_name(i), json_real(ceilings->warpgroup_mma[i]));
  }
  return json_pack("{s:f, s:f, s:o, s:o}", "read", ceilings->read, "copy", ceilings->copy, "warp_mma", warp,
                   "warpgroup_mma", group);
}

static json_t *plugins_json(const BenchSession *session)
{
  json_t *list = json_array();
  for (unsigned i = 0; i < session->n_plugins; i++) {
    const BenchPlugin *plugin = session->plugins[i];
    json_array_append_new(list, json_pack("{s:s, s:s}", "name", bench_plugin_name(plugin), "library",
                                          bench_plugin_library(plugin)));
  }
  return list;
}

static json_t *head_json(const BenchSession *session, const BenchCeilings *ceilings)
{
  g_autoptr(GDateTime) now = g_date_time_new_now_utc();
  g_autofree char *date = g_date_time_format(now, "%Y-%m-%d");
  g_autofree char *cublaslt = session->cublaslt ? cublaslt_version(session->cublaslt) : NULL;
  json_t *versions = json_pack("{s:s?, s:s?, s:s?}", "adlgen", session->version, "ptxas",
                               session->assembler->version, "cublaslt", cublaslt);
  if (session->n_plugins) json_object_set_new(versions, "plugins", plugins_json(session));
  json_t *method = json_pack("{s:i, s:f, s:f, s:I, s:I, s:b}", "rounds", (int)session->timing.rounds,
                             "seconds", session->timing.seconds, "short_us", session->timing.short_us,
                             "flush_bytes", (json_int_t)session->gpu->flush_bytes, "cublaslt_workspace",
                             (json_int_t)CUBLASLT_WORKSPACE, "fast_accumulation", session->fast_accumulation);
  return json_pack("{s:i, s:s, s:o, s:s, s:o, s:o, s:o}", "version", 1, "date", date, "machine",
                   bench_gpu_to_json(session->gpu), "gpu", session->description->name, "versions", versions,
                   "method", method, "ceilings", ceilings_json(ceilings));
}

static bool run_cases(const BenchSession *session, const BenchCeilings *ceilings, json_t *cases,
                      unsigned *n_wrong, unsigned *n_skipped, GError **error)
{
  g_autoptr(BenchCode) code = bench_code_new(session->assembler, bench_gpu_device(session->gpu));
  unsigned n_ours = session->n_variants + 1, n = n_ours + 1;
  g_autofree BenchBuild **all = g_new0(BenchBuild *, (size_t)n * session->n_cases + 1);
  g_autofree BenchCase **products = g_new0(BenchCase *, session->n_cases + 1);
  gint64 start = g_get_monotonic_time();
  bool ok = true;
  for (unsigned i = 0; i < session->n_cases; i++) {
    json_t *json = case_json(session->cases[i], bench_roof(ceilings, session->cases[i]));
    json_array_append_new(cases, json);
    build_case(session, session->cases[i], json, &all[(size_t)i * n], &products[i], n_wrong);
  }
  bench_code_add(code, all, n * session->n_cases, session->threads);
  for (unsigned i = 0; ok && i < session->n_cases; i++) {
    double spent = (double)(g_get_monotonic_time() - start) * 1e-6;
    if (session->seconds > 0 && spent > session->seconds) {
      *n_skipped = session->n_cases - i;
      for (unsigned j = session->n_cases; j > i; j--)
        json_array_remove(cases, j - 1);
      break;
    }
    CaseRun run = {.session = session,
                   .ceilings = ceilings,
                   .c = session->cases[i],
                   .product = products[i],
                   .n_wrong = n_wrong};
    run.candidates = g_ptr_array_new_with_free_func((GDestroyNotify)bench_candidate_free);
    run.list = json_array();
    run.json = json_array_get(cases, i);
    ok = run_case(&run, &all[(size_t)i * n], n_ours, code, error);
    json_decref(run.list);
  }
  for (size_t i = 0; i < (size_t)n * session->n_cases; i++)
    bench_build_free(all[i]);
  for (unsigned i = 0; i < session->n_cases; i++)
    bench_case_free(products[i]);
  return ok;
}

json_t *bench_session_run(const BenchSession *session, unsigned *n_wrong, GError **error)
{
  BenchCeilings ceilings;
  unsigned n_skipped = 0;
  *n_wrong = 0;
  if (!bench_ceilings(session->gpu, session->description, operand_types(session), session->ceiling_seconds,
                      &ceilings, error))
    return NULL;
  json_t *result = head_json(session, &ceilings), *cases = json_array();
  json_object_set_new(result, "cases", cases);
  if (!run_cases(session, &ceilings, cases, n_wrong, &n_skipped, error)) {
    json_decref(result);
    return NULL;
  }
  if (n_skipped) tell(session, "%u cases were not begun: the time was over", n_skipped);
  json_object_set_new(result, "skipped", json_integer(n_skipped));
  json_object_set_new(result, "classes", bench_classes(cases));
  return result;
}
