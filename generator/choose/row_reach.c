#include "generator/choose/row_reach.h"
#include "generator/choose/row_lives.h"
#include "generator/program/row.h"

#define VECTOR_BYTES 16 /* of a thread's widest access */

/* ---- Whole vectors ---- */

/* Rows of an input, or of an output behind the inputs, start aligned. *vector: elements of one of the narrowest type. */
static bool require_operand(const Problem *problem, Choice *choice, unsigned i, void *data)
{
  unsigned *vector = data;
  const FusedOperator *op = problem->op;
  bool input = i < op->n_inputs;
  const GraphTensor *tensor = input ? op->inputs[i].tensor : op->outputs[i - op->n_inputs].tensor;
  const Symbolic *const *strides =
      input ? (const Symbolic *const *)op->inputs[i].strides : op->outputs[i - op->n_inputs].strides;
  if (symbolic_equals(strides[op->rank - 1], 0)) return true;
  if ((input ? op->inputs[i].every : op->outputs[i - op->n_inputs].every) != 0)
    return choose_require_align(problem, choice, tensor, VECTOR_BYTES);
  if (!symbolic_equals(strides[op->rank - 1], 1)) return false;
  unsigned elements = number_elements(tensor->type, VECTOR_BYTES);
  for (unsigned d = 0; d + 1 < op->rank; d++)
    if (!choose_require_multiple(problem, choice, strides[d], elements)) return false;
  if (!choose_require_align(problem, choice, tensor, VECTOR_BYTES)) return false;
  *vector = MAX(*vector, elements);
  return true;
}

/* Accesses of VECTOR_BYTES: rows start aligned, and a vector never straddles a row's end. *vector: elements of one of
 * the narrowest type. */
static bool require_vectors(const Problem *problem, Choice *choice, unsigned *vector)
{
  *vector = 1;
  return choose_require_operands(problem, choice, choose_reads_along, require_operand, vector) &&
         choose_require_multiple(problem, choice, row_of(problem->op)->columns, *vector);
}

/* ---- Vectors of rows that begin anywhere ---- */

typedef struct {
  const Symbolic *const *strides; /* of a tensor that has a row for each; NULL: none has come yet */
  unsigned vector;
} Ends;

/* Do rows of two tensors begin at the same place within a vector? */
static bool begin_alike(const FusedOperator *op, const Ends *ends, const Symbolic *const *strides)
{
  for (unsigned d = 0; d + 1 < op->rank; d++) {
    int64_t a, b;
    bool known = symbolic_is_constant(ends->strides[d], &a) && symbolic_is_constant(strides[d], &b);
    if (symbolic_equals(op->dims[d], 1)) continue;
    if (known ? a % ends->vector != b % ends->vector : !symbolic_same(ends->strides[d], strides[d]))
      return false;
  }
  return true;
}

/* `given`: by the kernel, so that its rows say where tiles begin; of what is read, vectors may begin elsewhere. */
static bool require_ends(const Problem *problem, Choice *choice, const GraphTensor *tensor,
                         const Symbolic *const *strides, bool given, Ends *ends)
{
  const FusedOperator *op = problem->op;
  bool rows = false;
  if (symbolic_equals(strides[op->rank - 1], 0)) return true;
  if (!symbolic_equals(strides[op->rank - 1], 1) || number_bits(tensor->type) < CHAR_BIT) return false;
  for (unsigned d = 0; d + 1 < op->rank; d++)
    rows |= !symbolic_equals(strides[d], 0);
  if (!rows) return !given; /* one row for all */
  if (!choose_require_align(problem, choice, tensor, VECTOR_BYTES)) return false;
  if (given && ends->strides && !begin_alike(op, ends, strides)) return false;
  if (!ends->strides) ends->strides = strides;
  return true;
}

static unsigned least_vector(const FusedOperator *op)
{
  unsigned vector = VECTOR_BYTES;
  for (unsigned i = 0; i < op->n_inputs + op->n_outputs; i++) {
    const GraphTensor *tensor =
        i < op->n_inputs ? op->inputs[i].tensor : op->outputs[i - op->n_inputs].tensor;
    const Symbolic *const *strides = i < op->n_inputs ? (const Symbolic *const *)op->inputs[i].strides
                                                      : op->outputs[i - op->n_inputs].strides;
    if (symbolic_equals(strides[op->rank - 1], 1))
      vector = MIN(vector, number_elements(tensor->type, VECTOR_BYTES));
  }
  return vector;
}

static bool require_all_ends(const Problem *problem, Choice *choice, unsigned *vector)
{
  const FusedOperator *op = problem->op;
  Ends ends = {.vector = least_vector(op)};
  if (row_of(op)->group || row_of(op)->n_sums || ends.vector < 2) return false;
  for (unsigned i = 0; i < op->n_outputs; i++)
    if (!require_ends(problem, choice, op->outputs[i].tensor, op->outputs[i].strides, true, &ends))
      return false;
  for (unsigned i = 0; i < op->n_inputs; i++) {
    const Elementwise *points = row_of(op)->points;
    if (points && points->places[i].n) continue; /* one value a row, at an index */
    if (!require_ends(problem, choice, op->inputs[i].tensor, (const Symbolic *const *)op->inputs[i].strides,
                      false, &ends))
      return false;
  }
  *vector = ends.vector;
  return ends.strides != NULL;
}

bool row_reach_require(const Problem *problem, Choice *choice, RowReach reach, unsigned *vector)
{
  *vector = 1;
  if (reach == ROW_BY_VECTORS) return require_vectors(problem, choice, vector);
  return reach == ROW_BY_ELEMENTS || require_all_ends(problem, choice, vector);
}

unsigned row_reach_registers(const Problem *problem, RowReach reach)
{
  const CostModel *model = problem->gpu->model;
  if (reach == ROW_BY_ELEMENTS) return model->row_apart;
  if (reach != ROW_BY_ENDS) return 0;
  unsigned distances = row_has_moments(problem->op) ? model->row_light : 0; /* are computed of them again */
  return (1 + row_count_operands(problem->op)) * model->row_ends + distances;
}

int64_t row_reach_columns(RowReach reach, int64_t columns, unsigned vector)
{
  return reach == ROW_BY_ENDS ? columns + vector - 1 : columns;
}
