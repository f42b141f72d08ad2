/* The clock of tune: candidates on the GPU, each checked, all timed shortly, the fastest again. */
#include "measure/tune.h"
#include <string.h>

/* Results up to this size are compared with those of the first right candidate, larger ones with the
 * reference, in parts. */
#define WHOLE_BYTES (128u << 20)
#define LEAST_NEAR  4  /* timed again at least */
#define MOST_NEAR   24 /* and at most */

typedef struct Turn {
  const TuneGpu *clock;
  const TuneWork *work;
  BenchTensors *tensors;
  BenchCandidate **candidates; /* as the proposals; NULL: no time for it */
  TuneTime *times;
  Tensor **expected; /* outputs of a candidate that was checked, as graph->outputs; NULL: not kept */
} Turn;

static void fail(Turn *turn, unsigned i, const char *message)
{
  g_free(turn->times[i].message);
  turn->times[i].message = g_strdup(message);
  g_clear_pointer(&turn->candidates[i], bench_candidate_free);
}

/* ---- results ---- */

static bool is_dense(const GraphTensor *tensor)
{
  int64_t step = 1, stride = 0, extent = 0;
  for (unsigned d = tensor->rank; d-- > 0;) {
    if (!symbolic_is_constant(tensor->strides[d], &stride) || stride != step ||
        !symbolic_is_constant(tensor->shape[d], &extent))
      return false;
    step *= extent;
  }
  return true;
}

static bool can_keep(const BenchCase *c)
{
  uint64_t bytes = 0;
  for (unsigned i = 0; i < c->graph->n_outputs; i++) {
    if (!is_dense(c->graph->outputs[i])) return false;
    bytes += bench_tensor_bytes(c->graph->outputs[i]);
  }
  return bytes <= WHOLE_BYTES;
}

static Tensor *read_output(const Turn *turn, unsigned i, GError **error)
{
  const GraphTensor *output = turn->work->c->graph->outputs[i];
  int64_t shape[TENSOR_MAX_RANK];
  for (unsigned d = 0; d < output->rank; d++)
    symbolic_is_constant(output->shape[d], &shape[d]);
  g_autoptr(Tensor) tensor = tensor_new(output->name, output->type, output->rank, shape, error);
  if (!tensor || !device_read(bench_gpu_device(turn->clock->gpu), tensor->data,
                              bench_tensor_address(turn->tensors, 0, output), tensor->bytes, error))
    return NULL;
  return g_steal_pointer(&tensor);
}

static void forget_expected(Turn *turn)
{
  for (unsigned i = 0; turn->expected && i < turn->work->c->graph->n_outputs; i++)
    tensor_free(turn->expected[i]);
  g_clear_pointer(&turn->expected, g_free);
}

static bool keep_expected(Turn *turn, GError **error)
{
  unsigned n = turn->work->c->graph->n_outputs;
  turn->expected = g_new0(Tensor *, n + 1);
  for (unsigned i = 0; i < n; i++)
    if (!(turn->expected[i] = read_output(turn, i, error))) return false;
  return true;
}

/* Two right results differ by at most twice what one may be off. */
static bool matches_expected(Turn *turn, unsigned candidate, GError **error)
{
  const Graph *graph = turn->work->c->graph;
  if (!bench_poison(turn->tensors, 0, error) ||
      !turn->candidates[candidate]->queue(turn->candidates[candidate], 0, error) ||
      !device_wait(bench_gpu_device(turn->clock->gpu), error))
    return false;
  for (unsigned i = 0; i < graph->n_outputs; i++) {
    g_autoptr(Tensor) out = read_output(turn, i, error);
    if (!out) return false;
    if (!memcmp(out->data, turn->expected[i]->data, out->bytes)) continue; /* most add up in one order */
    g_autoptr(Value) expected = value_from_tensor(turn->expected[i], error);
    if (!expected) return false;
    double limit = 2 * bench_limit(turn->work->c, out->type);
    Comparison c = compare_values(out, expected, limit);
    if (c.ok) continue;
    g_autofree char *text =
        g_strdup_printf("wrong: %s differs by %.3g from a kernel that was checked", out->name, c.error);
    fail(turn, candidate, text);
    return true;
  }
  return true;
}

static bool check_fully(Turn *turn, unsigned i, GError **error)
{
  BenchCheck check;
  bool ok = bench_check(turn->clock->gpu, turn->tensors, turn->candidates[i], turn->clock->reference, NULL,
                        &check, error);
  if (ok && !check.ok) {
    g_autofree char *text = g_strconcat("wrong: ", check.message, NULL);
    fail(turn, i, text);
  }
  bench_check_clear(&check);
  return ok;
}

/* The first against double precision, the others against it where that is quicker. */
static bool check_all(Turn *turn, GError **error)
{
  bool keeps = can_keep(turn->work->c);
  for (unsigned i = 0; i < turn->work->n; i++) {
    if (!turn->candidates[i]) continue;
    if (turn->expected) {
      if (!matches_expected(turn, i, error)) return false;
      continue;
    }
    if (!check_fully(turn, i, error)) return false;
    if (turn->candidates[i] && keeps && !keep_expected(turn, error)) return false;
  }
  return true;
}

/* ---- times ---- */

static bool time_some(Turn *turn, const unsigned *which, unsigned n, const BenchTimingOptions *options,
                      bool thorough, GError **error)
{
  g_autofree BenchCandidate **candidates = g_new0(BenchCandidate *, n + 1);
  for (unsigned i = 0; i < n; i++)
    candidates[i] = turn->candidates[which[i]];
  g_autoptr(BenchTimings) timings =
      bench_time(turn->clock->gpu, candidates, n, 1, BENCH_COLD, options, error);
  if (!timings) return false;
  for (unsigned i = 0; i < n; i++) {
    TuneTime *time = &turn->times[which[i]];
    time->us = timings->of[i].median;
    time->spread = timings->of[i].spread;
    time->thorough = thorough;
  }
  return true;
}

static int by_time(const void *a, const void *b, void *data)
{
  const TuneTime *times = data;
  double x = times[*(const unsigned *)a].us, y = times[*(const unsigned *)b].us;
  return (x > y) - (x < y);
}

/* All shortly, then those near the best and the model's choice again, in turn with one another. */
static bool time_all(Turn *turn, GError **error)
{
  g_autofree unsigned *which = g_new0(unsigned, turn->work->n + 1);
  unsigned n = 0, near = 0;
  for (unsigned i = 0; i < turn->work->n; i++)
    if (turn->candidates[i]) which[n++] = i;
  if (!n) return true;
  if (!time_some(turn, which, n, &turn->clock->rough, false, error)) return false;
  g_qsort_with_data(which, (int)n, sizeof *which, by_time, turn->times);
  double limit = turn->times[which[0]].us * turn->clock->near;
  while (near < n && near < MOST_NEAR && (near < LEAST_NEAR || turn->times[which[near]].us <= limit))
    near++;
  bool listed = false;
  for (unsigned i = 0; i < near; i++)
    listed |= which[i] == 0;
  if (!listed && turn->candidates[0]) which[near++] = 0;
  return time_some(turn, which, near, &turn->clock->thorough, true, error);
}

/* ---- the clock ---- */

static void make_candidates(Turn *turn)
{
  const TuneWork *work = turn->work;
  bench_code_add(turn->clock->code, work->builds, work->n, turn->clock->threads);
  for (unsigned i = 0; i < work->n; i++) {
    GError *error = NULL;
    if (!work->builds[i]) continue;
    turn->candidates[i] =
        bench_candidate_new(g_steal_pointer(&work->builds[i]), turn->clock->code, turn->tensors, &error);
    if (error) fail(turn, i, error->message);
    g_clear_error(&error);
  }
}

static bool measure(void *data, const TuneWork *work, TuneTime *times, GError **error)
{
  Turn turn = {.clock = data, .work = work, .times = times};
  turn.candidates = g_new0(BenchCandidate *, work->n + 1);
  turn.tensors = bench_tensors_new(turn.clock->gpu, work->c, 1, error);
  if (turn.tensors) make_candidates(&turn);
  bool ok = turn.tensors && check_all(&turn, error) && time_all(&turn, error);
  for (unsigned i = 0; i < work->n; i++)
    bench_candidate_free(turn.candidates[i]);
  g_free(turn.candidates);
  forget_expected(&turn);
  bench_tensors_free(turn.tensors);
  return ok;
}

TuneClock tune_gpu_clock(TuneGpu *gpu)
{
  return (TuneClock){.wants_builds = true, .measure = measure, .data = gpu};
}
