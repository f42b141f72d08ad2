/* Pooling: reductions of a window's elements, which are read at sums of where the point and where the element in the window
 * lies. What is padded reads as the reduction's identity. */
#include "generator/program/build_private.h"
#include <math.h>

#define FIRST_SPATIAL 2 /* behind batch and channels */

typedef struct {
  ProgramBuilder *at;
  const GraphNode *node;
  const GraphTensor *x;
  NumberType compute;
  unsigned n;                              /* dimensions of the window */
  uint32_t axes;                           /* of the window */
  const Symbolic *starts[GRAPH_MAX_RANK];  /* of the point's window in x, */
  const Symbolic *indices[GRAPH_MAX_RANK]; /* and of an element in it */
  int64_t kernel[GRAPH_MAX_RANK], dilations[GRAPH_MAX_RANK];
  bool leaves; /* windows reach into what is padded */
} Pool;

static const Symbolic *number(const Pool *pool, int64_t value)
{
  return symbolic_constant(pool->at->program->arena, value);
}

static void open_pool(Pool *pool, ProgramBuilder *at, const GraphNode *node)
{
  Arena *arena = at->program->arena;
  const GraphAttribute *kernel = graph_attribute(node, "kernel_shape"),
                       *dilations = graph_attribute(node, "dilations");
  *pool = (Pool){.at = at, .node = node, .x = node->inputs[0]};
  pool->n = pool->x->rank - FIRST_SPATIAL;
  pool->compute = program_compute(pool->x->type);
  pool->leaves = graph_attribute(node, "ceil_mode")->integer != 0;
  for (unsigned i = 0; i < pool->n; i++) {
    int point = at->point[FIRST_SPATIAL + i];
    pool->kernel[i] = kernel->integers[i];
    pool->dilations[i] = dilations->given ? dilations->integers[i] : 1;
    const Symbolic *first =
        symbolic_mul(arena, at->program->axes[point].symbol, number(pool, node->steps[i]));
    pool->starts[i] = symbolic_add(arena, first, node->firsts[i]);
    pool->leaves |= !symbolic_equals(node->firsts[i], 0) || !symbolic_equals(node->sizes[i], 0);
    pool->indices[i] = pool->starts[i];
    if (pool->kernel[i] == 1) continue;
    int axis = program_add_axis(at, 'w', pool->n > 1 ? (int)i : -1, number(pool, pool->kernel[i]));
    const Symbolic *inside =
        symbolic_mul(arena, at->program->axes[axis].symbol, number(pool, pool->dilations[i]));
    pool->indices[i] = symbolic_add(arena, pool->starts[i], inside);
    pool->axes |= 1u << axis;
  }
}

static ProgramValue read_element(Pool *pool, double fill)
{
  ProgramAccess access = program_point_access(pool->at, pool->x);
  for (unsigned i = 0; i < pool->n; i++)
    access.at[FIRST_SPATIAL + i] = (ProgramIndex){pool->indices[i], PROGRAM_NONE};
  access.outside = pool->leaves ? OUTSIDE_FILL : OUTSIDE_NEVER;
  access.fill = fill;
  return program_add_read(pool->at, pool->node, access);
}

static ProgramValue map(Pool *pool, OperatorId op, NumberType type, ProgramValue a, ProgramValue b)
{
  unsigned n = b.kind == VALUE_ABSENT ? 1 : 2;
  return program_add_map(pool->at, pool->node, op, type, type, (ProgramValue[]){a, b}, n);
}

static ProgramValue compare(Pool *pool, OperatorId op, ProgramValue a, ProgramValue b)
{
  return program_add_map(pool->at, pool->node, op, NUMBER_BOOL, NUMBER_S64, (ProgramValue[]){a, b}, 2);
}

static ProgramValue reduce(Pool *pool, ProgramReduction reduction, ProgramValue a, ProgramValue b)
{
  if (!pool->axes) return a; /* a window of one element */
  return program_add_reduction(pool->at, pool->node, reduction, pool->axes, pool->compute,
                               (ProgramValue[]){a, b});
}

/* ---- MaxPool ---- */

/* Offset of the window's element in x, or behind all where it is outside. */
static ProgramValue place_of_element(Pool *pool, ProgramValue *inside)
{
  Arena *arena = pool->at->program->arena;
  bool columns = graph_attribute_find(pool->node, "storage_order") &&
                 graph_attribute(pool->node, "storage_order")->integer;
  const Symbolic *place = number(pool, 0);
  inside->kind = VALUE_ABSENT;
  for (unsigned i = 0; i < pool->n; i++) {
    unsigned d = columns ? pool->n - 1 - i : i;
    const Symbolic *extent = pool->x->shape[FIRST_SPATIAL + d];
    place = symbolic_add(arena, symbolic_mul(arena, place, extent), pool->indices[d]);
  }
  for (unsigned i = 0; i < pool->n && pool->leaves; i++) {
    ProgramValue index = program_add_index(pool->at, pool->node, pool->indices[i]),
                 none = program_immediate(0, NUMBER_S64);
    ProgramValue extent = program_add_index(pool->at, pool->node, pool->x->shape[FIRST_SPATIAL + i]);
    ProgramValue begun = compare(pool, ONNX_GreaterOrEqual, index, none);
    ProgramValue both = map(pool, ONNX_And, NUMBER_BOOL, begun, compare(pool, ONNX_Less, index, extent));
    *inside = inside->kind == VALUE_ABSENT ? both : map(pool, ONNX_And, NUMBER_BOOL, *inside, both);
  }
  return program_add_index(pool->at, pool->node, place);
}

/* Elements of x in front of the point's image. */
static ProgramValue image_of_point(Pool *pool)
{
  ProgramBuilder *at = pool->at;
  Arena *arena = at->program->arena;
  const Symbolic *image = number(pool, 0);
  for (unsigned d = 0; d < pool->x->rank; d++) {
    image = symbolic_mul(arena, image, pool->x->shape[d]);
    bool still = d >= FIRST_SPATIAL || symbolic_equals(pool->x->shape[d], 1) || at->point[d] == PROGRAM_NONE;
    if (!still) image = symbolic_add(arena, image, at->program->axes[at->point[d]].symbol);
  }
  return program_add_index(at, pool->node, image);
}

static ProgramValue add_max_pool(Pool *pool)
{
  NumberType type = pool->x->type;
  bool floats = number_class(type) == NUMBER_FLOAT;
  ProgramValue x = read_element(pool, floats ? -INFINITY : type == NUMBER_U8 ? 0 : INT8_MIN), inside;
  ProgramValue none = {.kind = VALUE_ABSENT};
  const GraphTensor *indices = pool->node->n_outputs > 1 ? pool->node->outputs[1] : NULL;
  if (!indices) {
    if (type == NUMBER_F16 || type == NUMBER_BF16)
      pool->compute = type; /* an extremum is one of the elements */
    return reduce(pool, REDUCTION_MAX, x, none);
  }
  ProgramValue place = place_of_element(pool, &inside);
  if (inside.kind != VALUE_ABSENT)
    place = program_add_map(pool->at, pool->node, ONNX_Where, NUMBER_S64, NUMBER_S64,
                            (ProgramValue[]){inside, place, program_immediate(INT32_MAX, NUMBER_S64)}, 3);
  ProgramValue best = reduce(pool, REDUCTION_ARG_MAX, x, place);
  if (pool->axes) {
    place = best;
    place.result = 1;
    place.type = NUMBER_S32;
  }
  program_set_value(pool->at, indices, map(pool, ONNX_Add, NUMBER_S64, place, image_of_point(pool)));
  return best;
}

/* ---- AveragePool ---- */

/* How many steps of `dilation` there are in front of `room`, which is at least 0. */
static const Symbolic *steps_to(Pool *pool, const Symbolic *room, int64_t dilation)
{
  Arena *arena = pool->at->program->arena;
  if (dilation == 1) return room;
  return symbolic_binary(arena, SYMBOLIC_DIV, symbolic_add(arena, room, number(pool, dilation - 1)),
                         number(pool, dilation));
}

/* Of a window's elements along dimension i those that count: with `pads` all of what is padded, else those of x. */
static const Symbolic *counted(Pool *pool, unsigned i, bool pads)
{
  Arena *arena = pool->at->program->arena;
  const Symbolic *zero = number(pool, 0);
  const Symbolic *end = pool->x->shape[FIRST_SPATIAL + i], *start = pool->starts[i];
  if (pads) end = symbolic_add(arena, end, pool->node->sizes[i]);
  const Symbolic *room = symbolic_binary(arena, SYMBOLIC_MAX, symbolic_sub(arena, end, start), zero);
  const Symbolic *behind = symbolic_binary(arena, SYMBOLIC_MIN, number(pool, pool->kernel[i]),
                                           steps_to(pool, room, pool->dilations[i]));
  if (pads) return behind;
  const Symbolic *missing = symbolic_binary(arena, SYMBOLIC_MAX, symbolic_sub(arena, zero, start), zero);
  const Symbolic *n = symbolic_sub(arena, behind, steps_to(pool, missing, pool->dilations[i]));
  return symbolic_binary(arena, SYMBOLIC_MAX, n, zero);
}

static ProgramValue add_average_pool(Pool *pool)
{
  Arena *arena = pool->at->program->arena;
  bool pads = graph_attribute(pool->node, "count_include_pad")->integer != 0,
       reaches = graph_attribute(pool->node, "ceil_mode")->integer != 0;
  ProgramValue none = {.kind = VALUE_ABSENT};
  ProgramValue sum = reduce(pool, REDUCTION_SUM, read_element(pool, 0), none);
  const Symbolic *n = number(pool, 1);
  for (unsigned i = 0; i < pool->n; i++)
    n = symbolic_mul(arena, n,
                     pool->leaves && (reaches || !pads) ? counted(pool, i, pads)
                                                        : number(pool, pool->kernel[i]));
  ProgramValue count = program_add_index(pool->at, pool->node, n);
  return map(pool, ONNX_Div, pool->compute, sum, count);
}

/* ---- LpPool ---- */

static ProgramValue add_lp_pool(Pool *pool)
{
  ProgramValue none = {.kind = VALUE_ABSENT}, x = read_element(pool, 0);
  int64_t p = graph_attribute(pool->node, "p")->integer;
  NumberType type = pool->compute;
  if (p == 2)
    x = map(pool, ONNX_Mul, type, x, x);
  else
    x = map(pool, ONNX_Abs, type, x, none);
  if (p > 2) x = map(pool, ONNX_Pow, type, x, program_immediate((double)p, type));
  ProgramValue sum = reduce(pool, REDUCTION_SUM, x, none);
  if (p == 2) return map(pool, ONNX_Sqrt, type, sum, none);
  return p == 1 ? sum : map(pool, ONNX_Pow, type, sum, program_immediate(1 / (double)p, type));
}

ProgramValue program_add_window(ProgramBuilder *at, const GraphNode *node)
{
  Pool pool;
  open_pool(&pool, at, node);
  switch ((unsigned)node->op->id) {
  case ONNX_MaxPool: return add_max_pool(&pool);
  case ONNX_AveragePool: return add_average_pool(&pool);
  default: return add_lp_pool(&pool);
  }
}
