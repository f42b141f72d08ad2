/* Masks as exporters compute them - constants, Trilu, comparisons of indices, and what is computed of these element by
 * element - as bands: one value where lower <= column - row <= upper, another elsewhere. */
#include "generator/fusion/places.h"
#include <math.h>

#define MOST_NODES    64         /* between a mask and what it is computed from */
#define MOST_ELEMENTS (1u << 24) /* of a constant that is looked at */
#define MOST_STEP     (1 << 12)  /* of indices: sums of some nodes do not overflow */

static const Places unknown = {.kind = PLACES_UNKNOWN};

static Places constant(double value)
{
  return (Places){.kind = PLACES_CONSTANT, .inside = value, .outside = value};
}

bool fusion_turn_places(Arena *arena, Places *places)
{
  const Symbolic *one = symbolic_constant(arena, 1), *lower = places->lower, *upper = places->upper;
  if (places->kind != PLACES_BAND || (lower && upper)) return false;
  places->lower = upper ? symbolic_add(arena, upper, one) : NULL;
  places->upper = lower ? symbolic_sub(arena, lower, one) : NULL;
  double inside = places->inside;
  places->inside = places->outside;
  places->outside = inside;
  return true;
}

/* ---- constants ---- */

typedef struct {
  const GraphTensor *tensor;
  const uint8_t *data;
  GMappedFile *file;
  int64_t rows, columns;
} Matrix;

static double element(const Matrix *m, int64_t row, int64_t column)
{
  return number_read(m->tensor->type, m->data, (uint64_t)(row * m->columns + column));
}

/* Elements of which only the last two dimensions count. */
static bool open_matrix(Matrix *m, const GraphTensor *tensor)
{
  int64_t extents[2] = {1, 1}, extent;
  for (unsigned d = 0; d < tensor->rank; d++) {
    if (!symbolic_is_constant(tensor->shape[d], &extent)) return false;
    if (d + 2 < tensor->rank && extent != 1) return false;
    if (d + 2 >= tensor->rank) extents[d + 2 - tensor->rank] = extent;
  }
  *m = (Matrix){.tensor = tensor, .data = tensor->data, .rows = extents[0], .columns = extents[1]};
  bool few = m->rows > 0 && m->columns > 0 && m->rows <= MOST_ELEMENTS / m->columns;
  if (few && !m->data && tensor->file && tensor->file_is_raw) {
    m->file = g_mapped_file_new(tensor->file, FALSE, NULL);
    uint64_t bytes = number_bytes_of(tensor->type, (uint64_t)(m->rows * m->columns));
    if (m->file && g_mapped_file_get_length(m->file) >= tensor->file_offset + bytes)
      m->data = (const uint8_t *)g_mapped_file_get_contents(m->file) + tensor->file_offset;
  }
  return few && m->data;
}

/* Indices along a row or a column: first, first + 1, ... */
static Places places_of_list(Arena *arena, const Matrix *m)
{
  bool along = m->rows == 1;
  int64_t n = along ? m->columns : m->rows;
  double first = element(m, 0, 0);
  if (!(along || m->columns == 1) || n < 2 || first != floor(first)) return unknown;
  for (int64_t i = 1; i < n; i++)
    if (element(m, along ? 0 : i, along ? i : 0) != first + (double)i) return unknown;
  return (Places){.kind = PLACES_INDEX,
                  .by_row = !along,
                  .by_column = along,
                  .number = symbolic_constant(arena, (int64_t)first)};
}

/* Two values, the larger one in a band along the diagonal. */
static Places places_of_matrix(Arena *arena, const Matrix *m)
{
  double least = INFINITY, most = -INFINITY;
  int64_t low = INT64_MAX, high = INT64_MIN;
  for (int64_t i = 0; i < m->rows * m->columns; i++) {
    double value = element(m, 0, i);
    if (isnan(value)) return unknown;
    least = fmin(least, value);
    most = fmax(most, value);
  }
  if (least == most) return constant(least);
  for (int64_t row = 0; row < m->rows; row++)
    for (int64_t column = 0; column < m->columns; column++)
      if (element(m, row, column) == most) {
        low = MIN(low, column - row);
        high = MAX(high, column - row);
      }
  for (int64_t row = 0; row < m->rows; row++)
    for (int64_t column = 0; column < m->columns; column++) {
      bool within = column - row >= low && column - row <= high;
      if (element(m, row, column) != (within ? most : least)) return unknown;
    }
  Places places = {.kind = PLACES_BAND, .inside = most, .outside = least};
  if (low > 1 - m->rows) places.lower = symbolic_constant(arena, low);
  if (high < m->columns - 1) places.upper = symbolic_constant(arena, high);
  return places;
}

static Places places_of_constant(Arena *arena, const GraphTensor *tensor)
{
  Matrix m;
  Places places = unknown;
  double value;
  if (graph_scalar(tensor, &value)) return constant(value);
  if (tensor->values && tensor->n_elements == 1)
    return (Places){.kind = PLACES_INDEX, .number = tensor->values[0]}; /* a symbol's, the same everywhere */
  if (!open_matrix(&m, tensor)) return unknown;
  places = places_of_list(arena, &m);
  if (places.kind == PLACES_UNKNOWN) places = places_of_matrix(arena, &m);
  if (m.file) g_mapped_file_unref(m.file);
  /* a list along one of the dimensions is no band: it repeats along the other */
  bool list = places.kind == PLACES_BAND && (m.rows == 1 || m.columns == 1);
  return list ? unknown : places;
}

/* ---- elementwise nodes ---- */

static bool is_comparison(OperatorId op)
{
  return op == ONNX_Less || op == ONNX_LessOrEqual || op == ONNX_Greater || op == ONNX_GreaterOrEqual;
}

/* NaN: the operator is not known here. */
static double compute(OperatorId op, double a, double b)
{
  switch ((unsigned)op) {
  case ONNX_Identity:
  case ONNX_Cast: return a;
  case ONNX_Not: return a == 0;
  case ONNX_Neg: return -a;
  case ONNX_Add: return a + b;
  case ONNX_Sub: return a - b;
  case ONNX_Mul: return a * b;
  case ONNX_And: return a != 0 && b != 0;
  case ONNX_Or: return a != 0 || b != 0;
  case ONNX_Equal: return a == b;
  case ONNX_Less: return a < b;
  case ONNX_LessOrEqual: return a <= b;
  case ONNX_Greater: return a > b;
  case ONNX_GreaterOrEqual: return a >= b;
  default: return NAN;
  }
}

/* Of a band and what is the same everywhere. */
static Places map_values(OperatorId op, const Places *a, const Places *b)
{
  Places places = a->kind == PLACES_BAND ? *a : *b;
  places.inside = compute(op, a->inside, b->inside);
  places.outside = compute(op, a->outside, b->outside);
  if (isnan(places.inside) || isnan(places.outside)) return unknown;
  if (places.inside == places.outside) places.kind = PLACES_CONSTANT;
  return places;
}

static Places add_indices(Arena *arena, const Places *a, const Places *b, int sign)
{
  const Symbolic *of_a = a->kind == PLACES_INDEX ? a->number : symbolic_constant(arena, (int64_t)a->inside),
                 *of_b = b->kind == PLACES_INDEX ? b->number : symbolic_constant(arena, (int64_t)b->inside);
  return (Places){.kind = PLACES_INDEX,
                  .by_row = a->by_row + sign * b->by_row,
                  .by_column = a->by_column + sign * b->by_column,
                  .number = sign > 0 ? symbolic_add(arena, of_a, of_b) : symbolic_sub(arena, of_a, of_b)};
}

/* Indices in steps, as Range has them. */
static Places scale_index(Arena *arena, const Places *a, const Places *b)
{
  const Places *index = a->kind == PLACES_INDEX ? a : b, *by = index == a ? b : a;
  if (by->kind != PLACES_CONSTANT || fabs(by->inside) > MOST_STEP) return unknown;
  int step = (int)by->inside;
  return (Places){.kind = PLACES_INDEX,
                  .by_row = step * index->by_row,
                  .by_column = step * index->by_column,
                  .number = symbolic_mul(arena, index->number, symbolic_constant(arena, step))};
}

/* 1 where `a op b`: a - b is a bound of column - row. `one_row`: there is no other. */
static Places compare_indices(Arena *arena, OperatorId op, bool one_row, const Places *a, const Places *b)
{
  Places d = add_indices(arena, a, b, -1);
  if (one_row) d.by_row = -d.by_column;
  if (d.by_row + d.by_column != 0 || (d.by_column != 1 && d.by_column != -1)) return unknown;
  /* at most: column - row <= -number, or (from the other side) column - row >= number */
  bool most = op == ONNX_Less || op == ONNX_LessOrEqual, strict = op == ONNX_Less || op == ONNX_Greater;
  const Symbolic *zero = symbolic_constant(arena, 0), *one = symbolic_constant(arena, strict);
  bool upper = most == (d.by_column == 1);
  const Symbolic *end = d.by_column == 1 ? symbolic_sub(arena, zero, d.number) : d.number;
  Places places = {.kind = PLACES_BAND, .inside = 1, .outside = 0};
  if (upper)
    places.upper = symbolic_sub(arena, end, one);
  else
    places.lower = symbolic_add(arena, end, one);
  return places;
}

/* Both: where each of two truth values has an end of its own. */
static Places intersect(Arena *arena, Places a, Places b)
{
  if (a.outside != 0 && !fusion_turn_places(arena, &a)) return unknown;
  if (b.outside != 0 && !fusion_turn_places(arena, &b)) return unknown;
  if (a.outside != 0 || b.outside != 0 || (a.lower && b.lower) || (a.upper && b.upper)) return unknown;
  a.lower = a.lower ? a.lower : b.lower;
  a.upper = a.upper ? a.upper : b.upper;
  a.inside = a.inside != 0 && b.inside != 0;
  return a;
}

static Places binary(Arena *arena, OperatorId op, bool one_row, const Places *a, const Places *b)
{
  if (a->kind == PLACES_UNKNOWN || b->kind == PLACES_UNKNOWN) return unknown;
  if (a->kind == PLACES_BAND && b->kind == PLACES_BAND)
    return op == ONNX_And ? intersect(arena, *a, *b) : unknown;
  if (a->kind != PLACES_INDEX && b->kind != PLACES_INDEX) return map_values(op, a, b);
  if (a->kind == PLACES_BAND || b->kind == PLACES_BAND) return unknown;
  if ((a->kind == PLACES_CONSTANT && a->inside != floor(a->inside)) ||
      (b->kind == PLACES_CONSTANT && b->inside != floor(b->inside)))
    return unknown;
  if (is_comparison(op)) return compare_indices(arena, op, one_row, a, b);
  if (op == ONNX_Mul) return scale_index(arena, a, b);
  return op == ONNX_Add || op == ONNX_Sub ? add_indices(arena, a, b, op == ONNX_Add ? 1 : -1) : unknown;
}

/* ---- other nodes ---- */

static bool extent_is(const GraphTensor *tensor, unsigned from_last, const GraphTensor *like)
{
  const Symbolic *extent = tensor->rank < from_last ? NULL : tensor->shape[tensor->rank - from_last];
  if (!like || like->rank < from_last) return !extent || symbolic_equals(extent, 1);
  const Symbolic *other = like->shape[like->rank - from_last];
  return extent ? symbolic_same(extent, other) : symbolic_equals(other, 1);
}

static bool is_one(const GraphTensor *tensor, unsigned from_last)
{
  return extent_is(tensor, from_last, NULL);
}

/* Places of x's elements where they stand in y, to whose shape x broadcasts: an index along one element is that one's, and a band
 * that repeats along rows or columns is none. */
static Places spread(const GraphTensor *x, const GraphTensor *y, Places places)
{
  if (is_one(x, 1)) places.by_column = 0;
  if (is_one(x, 2)) places.by_row = 0;
  bool lies = places.kind != PLACES_BAND || (extent_is(x, 1, y) && extent_is(x, 2, y));
  return lies ? places : unknown;
}

/* Dimension `from` (1: the last) of what is reshaped; 0: it is none of the last two any more. */
static unsigned moved(const GraphTensor *x, const GraphTensor *y, unsigned from)
{
  unsigned place = 0, d = y->rank;
  if (x->rank < from || symbolic_equals(x->shape[x->rank - from], 1)) return from;
  for (unsigned i = 1; i <= from; i++) /* the so manieth that is not 1, from the last on */
    place += !symbolic_equals(x->shape[x->rank - i], 1);
  while (d > 0 && place > 0)
    place -= !symbolic_equals(y->shape[--d], 1);
  bool same = !place && symbolic_same(x->shape[x->rank - from], y->shape[d]);
  return same && y->rank - d <= 2 ? y->rank - d : 0;
}

static Places reshaped(const GraphTensor *x, const GraphTensor *y, Places places)
{
  unsigned column = moved(x, y, 1), row = moved(x, y, 2);
  if (places.kind == PLACES_CONSTANT || (column == 1 && row == 2)) return places;
  if (places.kind != PLACES_INDEX) return unknown;
  int of[3] = {0}; /* by the place from the last dimension */
  if ((places.by_column && !column) || (places.by_row && !row)) return unknown;
  if (places.by_column) of[column] += places.by_column;
  if (places.by_row) of[row] += places.by_row;
  places.by_column = of[1];
  places.by_row = of[2];
  return places;
}

/* Rows and columns begin further on. */
static Places sliced(Arena *arena, const GraphNode *node, Places places)
{
  unsigned rank = node->inputs[0]->rank;
  const Symbolic *zero = symbolic_constant(arena, 0), *column = zero, *row = zero;
  for (unsigned d = 0; d < rank; d++)
    if (node->steps[d] != 1) return unknown;
  if (rank > 0) column = node->firsts[rank - 1];
  if (rank > 1) row = node->firsts[rank - 2];
  const Symbolic *by = symbolic_sub(arena, row, column);
  if (places.lower) places.lower = symbolic_add(arena, places.lower, by);
  if (places.upper) places.upper = symbolic_add(arena, places.upper, by);
  if (places.kind != PLACES_INDEX) return places;
  for (int i = 0; i < abs(places.by_column); i++)
    places.number = places.by_column > 0 ? symbolic_add(arena, places.number, column)
                                         : symbolic_sub(arena, places.number, column);
  for (int i = 0; i < abs(places.by_row); i++)
    places.number =
        places.by_row > 0 ? symbolic_add(arena, places.number, row) : symbolic_sub(arena, places.number, row);
  return places;
}

static Places triangle(Arena *arena, const GraphNode *node, const Places *x)
{
  double diagonal = 0;
  const GraphTensor *k = node->n_inputs > 1 ? node->inputs[1] : NULL;
  if (k && !graph_scalar(k, &diagonal)) return unknown;
  const Symbolic *number = symbolic_constant(arena, (int64_t)diagonal);
  bool upper = graph_attribute(node, "upper")->integer != 0;
  if (x->kind != PLACES_CONSTANT) return unknown;
  return (Places){.kind = PLACES_BAND,
                  .inside = x->inside,
                  .outside = 0,
                  .lower = upper ? number : NULL,
                  .upper = upper ? NULL : number};
}

static Places chosen(const Places *condition, const Places *yes, const Places *no)
{
  Places places = *condition;
  bool plain = yes->kind == PLACES_CONSTANT && no->kind == PLACES_CONSTANT;
  if (!plain || condition->kind == PLACES_UNKNOWN || condition->kind == PLACES_INDEX) return unknown;
  places.inside = condition->inside != 0 ? yes->inside : no->inside;
  places.outside = condition->outside != 0 ? yes->inside : no->inside;
  return places;
}

static Places places_of(const AttentionPattern *at, const GraphTensor *tensor, unsigned *left);

static Places places_within(const AttentionPattern *at, const GraphTensor *tensor, const GraphTensor *like,
                            unsigned *left)
{
  return tensor ? spread(tensor, like, places_of(at, tensor, left)) : unknown;
}

static Places places_of_node(const AttentionPattern *at, const GraphNode *node, unsigned *left)
{
  Arena *arena = at->fuser->arena;
  const GraphTensor *x = node->inputs[0], *y = node->outputs[0];
  if (node->op->id == ONNX_IndexAlong) {
    unsigned axis = (unsigned)__builtin_ctz(node->axes), behind = x->rank - axis;
    if (behind > 2 || node->axes != 1u << axis) return unknown;
    return (Places){.kind = PLACES_INDEX,
                    .by_row = behind == 2,
                    .by_column = behind == 1,
                    .number = symbolic_constant(arena, 0)};
  }
  Places a = x ? places_of(at, x, left) : unknown, b = constant(0);
  if (a.kind == PLACES_UNKNOWN) return unknown;
  switch ((unsigned)node->op->id) {
  case ONNX_Reshape:
  case ONNX_Unsqueeze:
  case ONNX_Squeeze: return reshaped(x, y, a);
  case ONNX_Expand: return spread(x, y, a);
  case ONNX_Slice: return sliced(arena, node, a);
  case ONNX_Trilu: return triangle(arena, node, &a);
  case ONNX_Where: {
    Places yes = places_within(at, node->inputs[1], y, left),
           no = places_within(at, node->inputs[2], y, left);
    a = spread(x, y, a);
    return chosen(&a, &yes, &no);
  }
  case ONNX_Cast:
    if (y->type == NUMBER_BOOL && a.kind != PLACES_INDEX) {
      a.inside = a.inside != 0;
      a.outside = a.outside != 0;
    }
    return a;
  default: break;
  }
  if (node->op->class_ != OPERATOR_ELEMENTWISE || node->n_inputs > 2) return unknown;
  if (node->n_inputs == 1) return a.kind == PLACES_INDEX ? unknown : map_values(node->op->id, &a, &b);
  a = spread(x, y, a);
  b = places_within(at, node->inputs[1], y, left);
  return binary(arena, node->op->id, is_one(y, 2), &a, &b);
}

static Places places_of(const AttentionPattern *at, const GraphTensor *tensor, unsigned *left)
{
  if (!tensor || !*left) return unknown;
  --*left;
  if (tensor->kind == TENSOR_CONSTANT) return places_of_constant(at->fuser->arena, tensor);
  const GraphNode *node = at->producers[tensor->index];
  return node && node->outputs[0] == tensor ? places_of_node(at, node, left) : unknown;
}

Places fusion_places_of(const AttentionPattern *at, const GraphTensor *tensor, const GraphTensor *like)
{
  unsigned left = MOST_NODES;
  return places_within(at, tensor, like, &left);
}
