#include "tests/tools/interpret.h"
#include "execute/evaluate.h"
#include "generator/program/attention.h"
#include "generator/program/elementwise.h"
#include "generator/program/gemm.h"
#include "generator/program/row.h"
#include <math.h>
#include <string.h>

typedef struct {
  GHashTable *memory; /* GraphTensor -> double *, elements at their strides */
  const FusedOperator *fused;
  const int64_t *index;  /* the iteration point */
  const double *steps;   /* results so far */
  const double *anchor;  /* by anchor output */
  const double *reduced; /* of a row program: by result */
} Point;

static int64_t number(const Symbolic *expression)
{
  int64_t value;
  if (!symbolic_is_constant(expression, &value)) g_error("interpret: the graph is not bound");
  return value;
}

static double *storage(GHashTable *memory, const GraphTensor *tensor)
{
  if (tensor->whole) tensor = tensor->whole; /* parts share it, as do views */
  double *data = g_hash_table_lookup(memory, GUINT_TO_POINTER(tensor->index + 1));
  if (data) return data;
  int64_t last = 0;
  for (unsigned i = 0; i < tensor->rank; i++)
    last += MAX(number(tensor->shape[i]) - 1, 0) * number(tensor->strides[i]);
  data = g_new0(double, last + 1);
  g_hash_table_insert(memory, GUINT_TO_POINTER(tensor->index + 1), data);
  return data;
}

/* The tensor's first element: of a view or part behind others. */
static double *first_of(GHashTable *memory, const GraphTensor *tensor)
{
  return storage(memory, tensor) + (tensor->begins ? number(tensor->begins) : 0);
}

/* Element of a tensor for a row-major index. */
static int64_t offset_of(const GraphTensor *tensor, size_t index)
{
  int64_t offset = 0;
  for (unsigned d = tensor->rank; d-- > 0;) {
    int64_t extent = number(tensor->shape[d]);
    offset += (int64_t)(index % (size_t)extent) * number(tensor->strides[d]);
    index /= (size_t)extent;
  }
  return offset;
}

static double load(const Value *value, size_t i)
{
  return value->floats ? value->floats[i] : (double)value->integers[i];
}

/* every: one element is for so many of the last dim; 0: for each. */
static double at_strides(const Point *point, const GraphTensor *tensor, const Symbolic *const *strides,
                         int64_t every)
{
  int64_t offset = 0;
  unsigned rank = point->fused->rank;
  for (unsigned d = 0; d < rank; d++)
    offset += (every && d + 1 == rank ? point->index[d] / every : point->index[d]) * number(strides[d]);
  return first_of(point->memory, tensor)[offset];
}

/* What the operator reads at indices of its own, and indices that it computes with; NULL: nothing. */
static const Elementwise *points_of(const FusedOperator *fused)
{
  if (g_str_equal(fused->family->name, "row")) return row_of(fused)->points;
  return g_str_equal(fused->family->name, "elementwise") ? elementwise_of(fused) : NULL;
}

/* Where the point lies along an axis of the program. */
static bool axis_value(const Symbolic *leaf, int64_t *value, void *data)
{
  const Point *point = data;
  const Program *program = point->fused->program;
  unsigned axis = 0;
  while (axis < program->n_axes && !symbolic_same(leaf, program->axes[axis].symbol))
    axis++;
  if (axis == program->n_axes) return false;
  int dim = points_of(point->fused)->dims[axis];
  *value = dim < 0 ? 0 : point->index[dim];
  return true;
}

static int64_t index_value(const Point *point, const Symbolic *expression)
{
  int64_t value;
  bool row = g_str_equal(point->fused->family->name, "row");
  if (row && symbolic_same(expression, row_of(point->fused)->column))
    return point->index[point->fused->rank - 1];
  if (!symbolic_evaluate(expression, axis_value, (void *)point, &value, NULL))
    g_error("interpret: an index has no value");
  return value;
}

static double operand(const Point *point, const FusedOperand *operand, unsigned anchor_output);

/* Adds where the indices of a place lead; false: one lies outside. */
static bool add_place(const Point *point, const ElementPlace *place, int64_t *offset)
{
  for (unsigned j = 0; j < place->n; j++) {
    const ElementIndex *index = &place->indices[j];
    int64_t at = index_value(point, index->of_axes) + (int64_t)operand(point, &index->loaded, 0);
    if (index->extent && (at < 0 || at >= number(index->extent))) return false;
    *offset += at * number(index->stride);
  }
  return true;
}

static double read_input(const Point *point, unsigned i)
{
  const FusedInput *input = &point->fused->inputs[i];
  const Elementwise *points = points_of(point->fused);
  const ElementPlace *place = points ? &points->places[i] : NULL;
  int64_t offset = 0;
  if (!place || !place->n) return at_strides(point, input->tensor, input->strides, input->every);
  for (unsigned d = 0; d < point->fused->rank; d++)
    offset += point->index[d] * number(input->strides[d]);
  if (!add_place(point, place, &offset)) return place->fill;
  return first_of(point->memory, input->tensor)[offset];
}

static double operand(const Point *point, const FusedOperand *operand, unsigned anchor_output)
{
  switch (operand->kind) {
  case OPERAND_INPUT: return read_input(point, operand->index);
  case OPERAND_INDEX: return (double)index_value(point, points_of(point->fused)->values[operand->index]);
  case OPERAND_STEP: return point->steps[operand->index];
  case OPERAND_ANCHOR: return point->anchor[operand->index ? operand->index : anchor_output];
  case OPERAND_REDUCED: return point->reduced[operand->index];
  case OPERAND_IMMEDIATE: return operand->immediate;
  case OPERAND_ABSENT: break;
  }
  return 0;
}

static double run_step(const Point *point, const FusedStep *step)
{
  const Operator *op = operator_of(step->op);
  g_autofree Value **inputs = g_new0(Value *, step->n_operands + 1);
  g_autofree ReferenceAttribute *attributes = g_new0(ReferenceAttribute, op->n_attributes + 1);
  for (unsigned i = 0; i < step->n_operands; i++) {
    if (step->operands[i].kind == OPERAND_ABSENT) continue;
    inputs[i] = value_new(step->operands[i].type, 0, NULL, NULL);
    double x = operand(point, &step->operands[i], 0);
    if (inputs[i]->floats)
      inputs[i]->floats[0] = x;
    else
      inputs[i]->integers[0] = (int64_t)x;
  }
  for (unsigned i = 0; step->attributes && i < op->n_attributes; i++)
    attributes[i] = (ReferenceAttribute){.name = op->attributes[i].name,
                                         .integer = step->attributes[i].integer,
                                         .number = step->attributes[i].number,
                                         .text = step->attributes[i].text};
  ReferenceCall call = {.op = op->name,
                        .opset = OPERATOR_OPSET_DEFAULT,
                        .inputs = (const Value *const *)inputs,
                        .n_inputs = step->n_operands,
                        .attributes = attributes,
                        .n_attributes = step->attributes ? op->n_attributes : 0,
                        .result = step->type};
  Value *out;
  if (!reference_run(&call, &out, 1, NULL)) g_error("interpret: the reference does not know %s", op->name);
  double result = load(out, 0);
  value_free(out);
  for (unsigned i = 0; i < step->n_operands; i++)
    value_free(inputs[i]);
  return result;
}

static void run_steps(Point *point, double *steps, bool prologue)
{
  for (unsigned i = 0; i < point->fused->n_steps; i++)
    if (fused_step_is_in_front(point->fused, &point->fused->steps[i]) == prologue)
      steps[i] = run_step(point, &point->fused->steps[i]);
}

/* What a part has so far, and a further value; NaN stays. */
static double combine(OperatorId reduction, double so_far, double value)
{
  if (reduction == ONNX_ReduceSum) return so_far + value;
  if (isnan(so_far) || isnan(value)) return NAN;
  return reduction == ONNX_ReduceMax ? fmax(so_far, value) : fmin(so_far, value);
}

/* Points come in order, so the first of a part begins it. */
static void store_outputs(const Point *point)
{
  const FusedOperator *fused = point->fused;
  const Elementwise *points = points_of(fused);
  for (unsigned i = 0; i < fused->n_outputs; i++) {
    const FusedOutput *output = &fused->outputs[i];
    int64_t offset = 0, column = point->index[fused->rank - 1];
    for (unsigned d = 0; d < fused->rank; d++) {
      int64_t part = output->reduced ? REDUCED_COLUMNS : MAX(output->every, 1);
      offset += (d + 1 == fused->rank ? column / part : point->index[d]) * number(output->strides[d]);
    }
    if (points && !add_place(point, &points->places[fused->n_inputs + i], &offset)) continue;
    double value = operand(point, &output->value, output->anchor_output);
    double *stored = &first_of(point->memory, output->tensor)[offset];
    bool more = output->reduced && column % REDUCED_COLUMNS;
    *stored = more ? combine(output->reduction, *stored, value) : value;
  }
}

/* An element of what a product reads, beside batches along two dimensions of its own. */
static double of_matrix(const Point *point, unsigned input, const Symbolic *const *batch, int64_t row,
                        const Symbolic *of_row, int64_t k, const Symbolic *of_k)
{
  int64_t offset = row * number(of_row) + k * number(of_k);
  for (unsigned i = 0; i < gemm_of(point->fused)->n_batch; i++)
    offset += point->index[i] * number(batch[i]);
  return first_of(point->memory, point->fused->inputs[input].tensor)[offset];
}

/* Narrow weights less their zero points, times their blocks' scales. */
static double widened(const Point *point, double weight, int64_t row, int64_t k)
{
  const GemmWeights *weights = &gemm_of(point->fused)->weights;
  const FusedInput *inputs = point->fused->inputs;
  int64_t block = weights->depth ? k / weights->depth : 0;
  if (weights->has_zero == GEMM_ZERO_NUMBER) weight -= (double)weights->number;
  if (weights->has_zero == GEMM_ZERO_TENSOR)
    weight -= of_matrix(point, weights->zero, (const Symbolic *const *)inputs[weights->zero].strides, row,
                        weights->zero_row, block, weights->zero_k);
  if (!weights->depth) return weight;
  return weight * of_matrix(point, weights->scale, (const Symbolic *const *)inputs[weights->scale].strides,
                            row, weights->scale_row, block, weights->scale_k);
}

/* The product of A and a right operand: B, or one of further products. */
static double product(const Point *point, unsigned right)
{
  const FusedGemm *gemm = gemm_of(point->fused);
  const GemmLead *lead = gemm->lead;
  if (gemm->groups) g_error("interpret: groups of rows are the simulator's");
  int64_t m = point->index[gemm->n_batch], n = point->index[gemm->n_batch + 1];
  double sum = 0;
  for (int64_t k = 0; lead && k < number(lead->k); k++)
    sum += lead->factor * of_matrix(point, lead->a, lead->a_batch, m, lead->a_m, k, lead->a_k) *
           of_matrix(point, lead->b, lead->b_batch, n, lead->b_n, k, lead->b_k);
  for (int64_t k = 0; k < number(gemm->k); k++) {
    double b = of_matrix(point, right, gemm->b_batch, n, gemm->b_n, k, gemm->b_k);
    sum += of_matrix(point, gemm->a, gemm->a_batch, m, gemm->a_m, k, gemm->a_k) *
           (gemm->narrow ? widened(point, b, n, k) : b);
  }
  return sum;
}

/* ---- rows ---- */

typedef struct {
  double mean, inverse, largest, smallest, sum, product, exponentials;
} RowFacts;

static RowFacts row_facts(const double *x, int64_t n)
{
  RowFacts facts = {.largest = -INFINITY, .smallest = INFINITY, .product = 1};
  for (int64_t c = 0; c < n; c++) {
    facts.sum += x[c];
    facts.product *= x[c];
    facts.largest = fmax(facts.largest, x[c]);
    facts.smallest = fmin(facts.smallest, x[c]);
  }
  facts.mean = facts.sum / (double)n;
  double squares = 0;
  for (int64_t c = 0; c < n; c++) {
    squares += (x[c] - facts.mean) * (x[c] - facts.mean);
    facts.exponentials += exp(x[c] - facts.largest);
  }
  facts.inverse = 1 / sqrt(squares / (double)n);
  return facts;
}

static void run_phases(Point *point, double *steps, unsigned last)
{
  for (unsigned i = 0; i < point->fused->n_steps; i++)
    if (row_of(point->fused)->step_phases[i] <= last) steps[i] = run_step(point, &point->fused->steps[i]);
}

/* The least place of those where a row's extreme is. */
static double place_of(const double *x, const double *places, int64_t n, double extreme)
{
  double least = INFINITY;
  for (int64_t c = 0; c < n; c++)
    if (x[c] == extreme) least = fmin(least, places[c]);
  return least;
}

static void set_results(const FusedReduction *reduction, const RowFacts *facts, double *reduced)
{
  double *first = &reduced[reduction->first];
  switch (reduction->reduction) {
  case REDUCTION_SUM: *first = facts->sum; return;
  case REDUCTION_MEAN: *first = facts->mean; return;
  case REDUCTION_MAX: *first = facts->largest; return;
  case REDUCTION_MIN: *first = facts->smallest; return;
  case REDUCTION_PROD: *first = facts->product; return;
  case REDUCTION_ARG_MAX: first[0] = facts->largest; return;
  case REDUCTION_ARG_MIN: first[0] = facts->smallest; return;
  case REDUCTION_MOMENTS:
    first[0] = facts->mean;
    first[1] = 1 / (facts->inverse * facts->inverse);
    return;
  case REDUCTION_MAX_SUM:
    first[0] = facts->largest;
    first[1] = facts->exponentials;
    return;
  case REDUCTION_DOT:
  case REDUCTION_LARGEST:
  case REDUCTION_SMALLEST:
  case REDUCTION_BEGINS:
  case REDUCTION_LENGTHS:
  case REDUCTION_FIRST_OF:
  case REDUCTION_COUNT_OF:
  case REDUCTION_TALLY:
  case REDUCTION_TALLY_MAGNITUDES:
  case REDUCTION_TAKEN:
  case REDUCTION_PLACES:
  case REDUCTION_ENDS_OF:
  case REDUCTION_SOURCE_OF:
  case REDUCTION_COUNT: break;
  }
  g_error("interpret: no reduction of rows");
}

/* Of the column's group: results of reductions of earlier phases than `last`. */
static void take_group(const FusedRow *row, const double *groups, int64_t column, unsigned last,
                       double *reduced)
{
  for (unsigned i = 0; i < row->n_reductions; i++)
    if (row->reductions[i].of_groups && row->reductions[i].phase < last)
      reduced[row->reductions[i].first] = groups[i * number(row->columns) + column / row->group];
}

static void reduce_groups(const FusedRow *row, unsigned reduction, const double *x, double *groups)
{
  int64_t n = number(row->columns);
  for (int64_t c = 0; c < n; c += row->group) {
    double results[2];
    FusedReduction alone = row->reductions[reduction];
    alone.first = 0;
    RowFacts facts = row_facts(x + c, row->group);
    set_results(&alone, &facts, results);
    groups[reduction * n + c / row->group] = results[0];
  }
}

/* The row at point->index, whose last dim is the columns'. */
static void run_row(Point *point, double *steps, int64_t *index)
{
  const FusedOperator *fused = point->fused;
  const FusedRow *row = row_of(fused);
  int64_t n = number(row->columns), *column = &index[fused->rank - 1];
  g_autofree double *x = g_new0(double, n + 1), *places = g_new0(double, n + 1),
                    *reduced = g_new0(double, 2 * row->n_reductions + 1),
                    *groups = g_new0(double, row->n_reductions *n + 1);
  point->reduced = reduced;
  for (unsigned phase = 0; phase + 1 < row->n_phases; phase++)
    for (unsigned i = 0; i < row->n_reductions; i++) {
      const FusedReduction *reduction = &row->reductions[i];
      if (reduction->phase != phase) continue;
      for (*column = 0; *column < n; ++*column) {
        take_group(row, groups, *column, phase, reduced);
        run_phases(point, steps, phase);
        x[*column] = operand(point, &reduction->source, 0);
        places[*column] = operand(point, &reduction->place, 0);
      }
      RowFacts facts = row_facts(x, n);
      set_results(reduction, &facts, reduced);
      if (reduction->of_groups) reduce_groups(row, i, x, groups);
      if (reduction->place.kind != OPERAND_ABSENT)
        reduced[reduction->first + 1] = place_of(x, places, n, reduced[reduction->first]);
    }
  for (*column = 0; *column < n; ++*column) {
    take_group(row, groups, *column, row->n_phases, reduced);
    run_phases(point, steps, row->n_phases);
    store_outputs(point);
  }
  *column = n - 1;
}

/* ---- attention ---- */

/* An element of queries, keys or values: heads in groups share the latter two. */
static double element(const Point *point, const AttentionOperand *operand, int64_t head, int64_t along,
                      int64_t at)
{
  const double *first = first_of(point->memory, point->fused->inputs[operand->input].tensor);
  return first[point->index[ATTENTION_BATCH] * number(operand->strides[0]) +
               head * number(operand->strides[1]) + along * number(operand->strides[2]) +
               at * number(operand->strides[3])];
}

/* Is the key at point->index outside of the bound? */
static bool hides(Point *point, double *steps, const AttentionBound *bound)
{
  int64_t place = point->index[ATTENTION_KEY] - (bound->from_row ? point->index[ATTENTION_ROW] : 0);
  double nothing = 0;
  point->anchor = &nothing;
  run_steps(point, steps, true);
  int64_t end = number(bound->number) + (int64_t)operand(point, &bound->limit, 0);
  return bound->least ? place < end : place > end;
}

/* The score of the key at point->index. */
static double score(Point *point, double *steps)
{
  const FusedAttention *attention = attention_of(point->fused);
  int64_t row = point->index[ATTENTION_ROW], key = point->index[ATTENTION_KEY],
          head = point->index[ATTENTION_HEAD];
  double sum = 0;
  for (unsigned i = 0; i < attention->n_bounds; i++)
    if (hides(point, steps, &attention->bounds[i])) return -INFINITY;
  if (attention->causal && key > row + number(attention->diagonal)) return -INFINITY;
  for (int64_t i = 0; i < number(attention->depth); i++)
    sum += element(point, &attention->queries, head, row, i) *
           element(point, &attention->key_matrix, head / number(attention->group), key, i);
  point->anchor = &sum;
  run_steps(point, steps, true);
  return operand(point, &attention->score, 0) * attention->scale;
}

/* The row at point->index. */
static void run_attention(Point *point, double *steps, int64_t *index)
{
  const FusedAttention *attention = attention_of(point->fused);
  int64_t n = number(attention->keys), head = index[ATTENTION_HEAD] / number(attention->group);
  g_autofree double *weights = g_new0(double, n + 1);
  double largest = -INFINITY, sum = 0;
  for (index[ATTENTION_KEY] = 0; index[ATTENTION_KEY] < n; index[ATTENTION_KEY]++)
    largest = fmax(largest, weights[index[ATTENTION_KEY]] = score(point, steps));
  for (int64_t key = 0; key < n && largest > -INFINITY; key++)
    sum += weights[key] = exp(weights[key] - largest);
  index[ATTENTION_KEY] = 0;
  for (index[ATTENTION_COLUMN] = 0; index[ATTENTION_COLUMN] < number(attention->width);
       index[ATTENTION_COLUMN]++) {
    double anchors[2] = {0};
    for (int64_t key = 0; key < n && sum > 0; key++)
      anchors[1] +=
          weights[key] / sum * element(point, &attention->values, head, key, index[ATTENTION_COLUMN]);
    point->anchor = anchors;
    run_steps(point, steps, false);
    store_outputs(point);
  }
  index[ATTENTION_KEY] = n - 1;
  index[ATTENTION_COLUMN]--;
}

static bool next(const FusedOperator *fused, int64_t *index)
{
  for (unsigned d = fused->rank; d-- > 0;) {
    if (++index[d] < number(fused->dims[d])) return true;
    index[d] = 0;
  }
  return false;
}

static void run_operator(GHashTable *memory, const FusedOperator *fused)
{
  int64_t index[FUSED_MAX_RANK + 1] = {0};
  g_autofree double *steps = g_new0(double, fused->n_steps + 1);
  Point point = {.memory = memory, .fused = fused, .index = index, .steps = steps};
  for (unsigned d = 0; d < fused->rank; d++)
    if (!number(fused->dims[d])) return;
  if (!strcmp(fused->family->name, "row")) {
    do
      run_row(&point, steps, index);
    while (next(fused, index));
    return;
  }
  if (!strcmp(fused->family->name, "attention")) {
    do
      run_attention(&point, steps, index);
    while (next(fused, index));
    return;
  }
  const FusedGemm *gemm = strcmp(fused->family->name, "gemm") != 0 ? NULL : gemm_of(fused);
  do {
    double acc[GEMM_MOST_PRODUCTS] = {0};
    if (gemm) acc[0] = product(&point, gemm->b);
    for (unsigned i = 1; gemm && i < gemm->products; i++)
      acc[i] = product(&point, gemm->more[i - 1]);
    point.anchor = acc;
    run_steps(&point, steps, false);
    store_outputs(&point);
  } while (next(fused, index));
}

/* ---- the whole ---- */

static void put(GHashTable *memory, const GraphTensor *tensor, const Tensor *dense)
{
  double *data = storage(memory, tensor);
  for (size_t i = 0; i < dense->n; i++)
    data[offset_of(tensor, i)] = number_to_double(dense->type, dense->data + i * number_bytes(dense->type));
}

static double largest_difference(GHashTable *memory, const Graph *graph, const GPtrArray *values)
{
  double largest = 0;
  for (unsigned i = 0; i < graph->n_outputs; i++) {
    const Value *value = values->pdata[i];
    const double *data = storage(memory, graph->outputs[i]);
    for (size_t j = 0; j < value->n; j++) {
      double want = load(value, j), have = data[offset_of(graph->outputs[i], j)];
      if ((isnan(want) && isnan(have)) || want == have) continue;
      double difference = fabs(want - have) / fmax(fabs(want), 1);
      largest = isnan(difference) ? INFINITY : fmax(largest, difference);
    }
  }
  return largest;
}

bool interpret_fusion(const Fusion *fusion, uint64_t seed, double *difference, GError **error)
{
  const Graph *graph = fusion->graph;
  g_autoptr(GHashTable) memory = g_hash_table_new_full(NULL, NULL, NULL, g_free);
  g_autoptr(GPtrArray) inputs = g_ptr_array_new_with_free_func((GDestroyNotify)tensor_free);
  for (unsigned i = 0; i < graph->n_inputs; i++) {
    Tensor *tensor = evaluate_default_input(graph, i, 1, seed, error);
    if (!tensor) return false;
    g_ptr_array_add(inputs, tensor);
    put(memory, graph->inputs[i], tensor);
  }
  for (unsigned i = 0; i < graph->n_constants; i++) {
    g_autoptr(Tensor) tensor = evaluate_constant(graph, i, error);
    if (!tensor) return false;
    put(memory, graph->constants[i], tensor);
  }
  for (unsigned i = 0; i < fusion->n; i++)
    run_operator(memory, fusion->operators[i]);
  g_autoptr(GPtrArray) values = evaluate_graph(graph, (Tensor *const *)inputs->pdata, error);
  if (!values) return false;
  *difference = largest_difference(memory, graph, values);
  return true;
}
