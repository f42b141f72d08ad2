/* Is a candidate right? Whole outputs against the reference for small cases; for large ones some rows and
 * columns against the reference, and for a product all of it by random projection. */
#include "measure/check.h"
#include <math.h>
#include <string.h>

/* The reference multiplies some 10^8 times a second, and holds eight bytes an element. */
#define WHOLE_FLOPS 5e7
#define WHOLE_BYTES 8e6
/* What has no dimension that can be cut, such as the sum of a whole tensor, costs the reference a second. */
#define UNCUT_BYTES    1.5e8
#define SAMPLE_BATCHES 6 /* along each of their dimensions */
#define SAMPLE_ROWS    12
#define SAMPLE_COLUMNS 48
#define SAMPLE_FLOPS   1e8
#define MOST_FLOPS     2e9 /* of a sample that cannot be made smaller: what it takes is too long beyond */
#define MOST_ELEMENTS  5e8 /* of its inputs, of which some seconds turn as many into numbers */
/* Rounding errors of a row are near normal, with a deviation of 0.4 of the limit at most: this is seven of
 * them. */
#define ROW_FACTOR 3.0

void bench_check_clear(BenchCheck *check)
{
  g_free(check->message);
  memset(check, 0, sizeof *check);
}

double bench_limit(const BenchCase *c, NumberType type)
{
  bool floats = number_class(type) == NUMBER_FLOAT;
  double limit = comparison_limit(type, graph_has_coarse_products(c->graph),
                                  graph_has_fast_sums(c->graph, c->accumulate == ACCUMULATE_FAST),
                                  graph_longest_sum(c->graph, NULL, NULL));
  bool rounded = floats && graph_rounds_weights(c->graph);
  return rounded ? fmax(limit, comparison_limit(NUMBER_E4M3, false, false, 0)) : limit;
}

static void add_result(BenchCheck *check, double error, double limit, bool ok, const char *what)
{
  if (!(error <= check->error)) check->error = error;
  check->limit = limit;
  if (ok) return;
  check->ok = false;
  if (!check->message) check->message = g_strdup_printf("%s: error %.3g, limit %.3g", what, error, limit);
}

/* Frees a list whose entries may be NULL. */
static void free_tensors(Tensor **tensors, unsigned n)
{
  for (unsigned i = 0; i < n; i++)
    tensor_free(tensors[i]);
  g_free(tensors);
}

static bool compare_sample(const Sample *sample, const BenchTensors *tensors, BenchReference reference,
                           BenchCheck *check, GError **error)
{
  const Graph *graph = sample->graph;
  Tensor **inputs = g_new0(Tensor *, graph->n_inputs + 1);
  bool ok = true;
  for (unsigned i = 0; ok && i < graph->n_inputs; i++)
    ok = (inputs[i] = sample_read(sample, tensors, graph->inputs[i]->index, error)) != NULL;
  Tensor **outputs = g_new0(Tensor *, graph->n_outputs + 1);
  for (unsigned i = 0; ok && i < graph->n_outputs; i++)
    ok = (outputs[i] = sample_read(sample, tensors, graph->outputs[i]->index, error)) != NULL;
  g_autofree Comparison *comparisons = g_new0(Comparison, graph->n_outputs + 1);
  ok = ok && reference(graph, inputs, outputs, tensors->c->accumulate == ACCUMULATE_FAST, comparisons, error);
  free_tensors(inputs, graph->n_inputs);
  free_tensors(outputs, graph->n_outputs);
  for (unsigned i = 0; ok && i < graph->n_outputs; i++) {
    const Comparison *c = &comparisons[i];
    g_autofree char *what =
        g_strdup_printf("%s%s", graph->outputs[i]->name, c->misplaced ? ", with NaN out of place" : "");
    add_result(check, c->error, c->limit, c->ok, what);
  }
  return ok;
}

static bool check_projection(BenchGpu *gpu, const BenchTensors *tensors, BenchCheck *check, GError **error)
{
  const BenchCase *c = tensors->c;
  NumberType type = c->product.d->type;
  double norm = 0, worst = 0, limit = bench_limit(c, type);
  if (!project_product(gpu, tensors, &norm, &worst, error)) return false;
  add_result(check, norm, limit, norm <= limit, "random projection");
  add_result(check, worst / ROW_FACTOR, limit, worst <= ROW_FACTOR * limit, "a row of the random projection");
  return true;
}

/* A sample of as many batches as the reference has the time for. */
static bool make_sample(Sample *sample, const BenchCase *c, SampleSize *size, GError **error)
{
  for (;; size->batches /= 2) {
    bool ok = sample_make(sample, c, size, error);
    if (ok && size->batches > 1 && sample_flops(sample) * sample->n_blocks > SAMPLE_FLOPS) {
      sample_clear(sample);
      continue;
    }
    return ok;
  }
}

typedef struct CheckedParts {
  bool whole, rows;
} CheckedParts;

static bool check_values(const BenchTensors *tensors, BenchReference reference, BenchCheck *check,
                         CheckedParts *parts, GError **error)
{
  const BenchCase *c = tensors->c;
  bool ok = true;
  SampleSize size = {SAMPLE_COLUMNS, SAMPLE_ROWS, SAMPLE_BATCHES, 0};
  parts->whole = c->flops <= WHOLE_FLOPS && c->held <= WHOLE_BYTES;
  if (parts->whole) size = (SampleSize){G_MAXUINT32, G_MAXUINT32, G_MAXUINT32, 0};
  for (unsigned n = 1; ok && size.block < n; size.block++) {
    Sample sample = {0};
    ok = make_sample(&sample, c, &size, error);
    n = sample.n_blocks;
    parts->whole |= ok && !sample.n_cuts && c->flops == 0 && c->held <= UNCUT_BYTES;
    bool feasible =
        ok && sample_flops(&sample) * n <= MOST_FLOPS && sample_elements(&sample) <= MOST_ELEMENTS;
    parts->rows = ok && (parts->whole || (sample.n_cuts && feasible));
    if (parts->rows) ok = compare_sample(&sample, tensors, reference, check, error);
    sample_clear(&sample);
  }
  return ok;
}

/* Whole outputs, as values. */
static GPtrArray *read_outputs(const BenchTensors *tensors, GError **error)
{
  const SampleSize all = {G_MAXUINT32, G_MAXUINT32, G_MAXUINT32, 0};
  g_autoptr(GPtrArray) values = g_ptr_array_new_with_free_func((GDestroyNotify)value_free);
  Sample sample = {0};
  bool ok = sample_make(&sample, tensors->c, &all, error);
  for (unsigned i = 0; ok && i < sample.graph->n_outputs; i++) {
    g_autoptr(Tensor) out = sample_read(&sample, tensors, sample.graph->outputs[i]->index, error);
    Value *value = out ? value_from_tensor(out, error) : NULL;
    ok = value != NULL;
    if (value) g_ptr_array_add(values, value);
  }
  sample_clear(&sample);
  return ok ? g_steal_pointer(&values) : NULL;
}

/* Both round what is between their kernels, each in its own places: the roundings of as many nodes add up as random numbers do. */
static bool check_agreement(const BenchTensors *tensors, GPtrArray **agreed, BenchCheck *check,
                            GError **error)
{
  const Graph *graph = tensors->c->graph;
  g_autoptr(GPtrArray) outputs = read_outputs(tensors, error);
  if (!outputs) return false;
  check->method = "agreement";
  if (!*agreed) {
    *agreed = g_steal_pointer(&outputs);
    return true;
  }
  for (unsigned i = 0; i < graph->n_outputs; i++) {
    g_autoptr(Tensor) out = value_to_tensor(outputs->pdata[i], graph->outputs[i]->name, error);
    if (!out) return false;
    double limit = bench_limit(tensors->c, out->type) * sqrt(graph->n_nodes);
    Comparison c = compare_values(out, (*agreed)->pdata[i], limit);
    g_autofree char *what = g_strdup_printf("%s beside the first candidate's%s", out->name,
                                            c.misplaced ? ", with NaN out of place" : "");
    add_result(check, c.error, limit, c.ok, what);
  }
  return true;
}

bool bench_check(BenchGpu *gpu, const BenchTensors *tensors, BenchCandidate *candidate,
                 BenchReference reference, GPtrArray **agreed, BenchCheck *check, GError **error)
{
  const BenchCase *c = tensors->c;
  CheckedParts parts = {0};
  *check = (BenchCheck){.ok = true};
  if (!bench_poison(tensors, 0, error) || !candidate->queue(candidate, 0, error) ||
      (candidate->deliver && !candidate->deliver(candidate, 0, error)) ||
      !device_wait(bench_gpu_device(gpu), error) || !check_values(tensors, reference, check, &parts, error))
    return false;
  bool projection = !parts.whole && c->is_product && !c->product.fused;
  if (projection && !check_projection(gpu, tensors, check, error)) return false;
  check->method = parts.whole                ? "whole"
                  : parts.rows && projection ? "rows, projection"
                  : parts.rows               ? "rows"
                  : projection               ? "projection"
                                             : NULL;
  if (!check->method && agreed) return check_agreement(tensors, agreed, check, error);
  if (!check->method)
    add_result(check, NAN, 0, false, "too large to check: no dimension of its result can be cut");
  return true;
}
