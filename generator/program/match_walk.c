/* Walks: each point reduces elements of its own, at indices that follow from where it lies or are loaded, and its thread
 * walks through them in their order. Windows of pooling are such, and what is scattered to an element. What rows reduce is
 * left to the family of rows: its threads share the work. */
#include "generator/program/bind.h"
#include "generator/program/elementwise.h"
#include "generator/program/fused_text.h"

static const char *refuse_walk(const Program *program, unsigned i)
{
  const ProgramNode *node = &program->nodes[i];
  switch ((unsigned)node->reduction) {
  case REDUCTION_SUM:
  case REDUCTION_MAX:
  case REDUCTION_MIN:
  case REDUCTION_PROD:
  case REDUCTION_ARG_MAX:
  case REDUCTION_ARG_MIN: break;
  default: return "a reduction that threads do not walk through";
  }
  if (node->source && node->source->op->class_ == OPERATOR_ROW) return "its elements are a row's";
  g_autofree bool *from = program_ancestors(program, i);
  for (unsigned j = 0; j < i; j++)
    if (from[j] && program->nodes[j].kind == NODE_REDUCE && program->varies[j] & node->axes)
      return "a reduction inside of a reduction";
  return NULL;
}

int elementwise_length(const Program *program, uint32_t axes)
{
  for (unsigned i = 0; i < program->n_axes; i++)
    if (axes >> i & 1 && program->axes[i].length != PROGRAM_NONE) return program->axes[i].length;
  return PROGRAM_NONE;
}

/* Elements of points that have unlike numbers of them are walked along one axis. */
static const char *refuse_lengths(const Program *program, uint32_t walked)
{
  for (unsigned i = 0; i < program->n_axes; i++)
    if (program->axes[i].length != PROGRAM_NONE && !(walked >> i & 1))
      return "an axis that is not walked along has a length that is loaded";
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    int length = node->kind == NODE_REDUCE ? elementwise_length(program, node->axes) : PROGRAM_NONE;
    if (length == PROGRAM_NONE) continue;
    if (node->axes & (node->axes - 1)) return "a length among several axes";
    if (program->varies[length] & walked) return "a length that changes within a loop";
  }
  return NULL;
}

/* Axes that are walked along; *why: a reduction that is not walked through. */
static uint32_t find_walks(Binding *binding)
{
  const Program *program = binding->program;
  uint32_t axes = 0;
  for (unsigned i = 0; i < program->n_nodes && !binding->why; i++) {
    if (program->nodes[i].kind != NODE_REDUCE) continue;
    binding->why = refuse_walk(program, i);
    axes |= program->nodes[i].axes;
  }
  for (unsigned i = 0; i < program->n_nodes && !binding->why; i++)
    if (program->nodes[i].kind == NODE_WRITE && program->varies[i] & axes)
      binding->why = "elements that are reduced are written too";
  return axes;
}

static void anchor_walks(Binding *binding)
{
  const Program *program = binding->program;
  unsigned next = 0;
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    if (node->kind != NODE_REDUCE) continue;
    binding->inside[i] = true;
    for (unsigned j = 0; j < program_reduction_results(node->reduction); j++)
      binding->anchors[i][j] = (FusedOperand){OPERAND_REDUCED, next++, 0, program_result_type(node, j)};
  }
}

static bool bind_walks(Binding *binding, Elementwise *points)
{
  const Program *program = binding->program;
  points->walks = arena_new_array(program->arena, ElementWalk, program->n_nodes);
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    if (node->kind != NODE_REDUCE) continue;
    ElementWalk walk = {.reduction = node->reduction,
                        .axes = node->axes,
                        .at = i,
                        .node = node->source,
                        .compute = node->compute,
                        .first = binding->anchors[i][0].index};
    if (!bind_operand(binding, node->operands[0], false, &walk.source)) return false;
    if (node->n_operands > 1 && !bind_operand(binding, node->operands[1], false, &walk.place)) return false;
    int counted = elementwise_length(program, node->axes);
    ProgramValue length = {.kind = VALUE_ABSENT};
    if (counted != PROGRAM_NONE)
      length = (ProgramValue){VALUE_NODE, (unsigned)counted, 0, 0, program->nodes[counted].type};
    if (!bind_operand(binding, length, false, &walk.length)) return false;
    points->walks[points->n_walks++] = walk;
  }
  return true;
}

/* No element that is walked through lies beside that of the next point in a row, but somewhere else: then elements of a thread may as
 * well lie below one another, and those of its neighbours beside them, which one access of a warp takes together. */
static bool stands_better(const FusedOperator *op)
{
  bool any = false;
  if (op->rank < 2) return false;
  for (unsigned i = 0; i < op->n_inputs; i++) {
    const ElementPlace *place = elementwise_place(op, i);
    bool along = !symbolic_equals(op->inputs[i].strides[op->rank - 1], 0),
         apart = elementwise_scatters(op, i);
    if (place && along && !apart) return false;
    any |= apart;
  }
  return any;
}

/* ---- runs ---- */

#define RUN_BYTES  8 /* of an access, at least, that are worth columns of results side by side */
#define MOST_STEP  4 /* elements between neighbours' windows, of which an access brings none in vain */
#define MOST_ALONG 8 /* results of a thread side by side */

/* How far an index moves by a step along dimension `dim` of the operator, or along any axis but that one's (the largest power of two that divides all,
 * at most `run`); false: nobody knows. */
static bool moves_by(const FusedOperator *op, const Elementwise *points, const ElementIndex *index,
                     int64_t *along, int64_t *run)
{
  const Program *program = op->program;
  uint32_t axes = program_axes_in(program, index->of_axes);
  int64_t step, stride;
  if (index->loaded.kind != OPERAND_ABSENT || !symbolic_is_constant(index->stride, &stride)) return false;
  for (unsigned axis = 0; axis < program->n_axes; axis++) {
    if (!(axes >> axis & 1)) continue;
    const Symbolic *by = program_step(program, program->arena, index->of_axes, axis);
    if (!by || !symbolic_is_constant(by, &step)) return false;
    if (points->dims[axis] == (int)op->rank - 1)
      *along += step * stride;
    else if (points->dims[axis] >= 0 || stride != 1) /* steps of a window along its row are what a run is */
      *run = MIN(*run, step * stride & -(step * stride));
  }
  if (index->extent && stride == 1) /* bounds of a row, so that an access is inside of them or outside */
    *run = symbolic_is_constant(index->extent, &step) ? MIN(*run, step & -step) : 1;
  return true;
}

/* Windows of neighbours along the last dim follow one another so closely, and rows begin so, that accesses of RUN_BYTES and more read them. */
static bool in_runs(const FusedOperator *op, const Elementwise *points, unsigned input)
{
  const ElementPlace *place = elementwise_place(op, input);
  const unsigned bytes = (unsigned)number_bytes_of(op->inputs[input].tensor->type, 1);
  int64_t along = 0, run = 16, stride, extent;
  for (unsigned d = 0; d < op->rank; d++) {
    if (!symbolic_is_constant(op->inputs[input].strides[d], &stride)) return false;
    if (d == op->rank - 1)
      along += stride;
    else if (stride)
      run = MIN(run, stride & -stride);
  }
  for (unsigned j = 0; place && j < place->n; j++)
    if (!moves_by(op, points, &place->indices[j], &along, &run)) return false;
  if (along < 1 || along > MOST_STEP || !symbolic_is_constant(op->dims[op->rank - 1], &extent)) return false;
  int64_t results = MIN(extent & -extent, MOST_ALONG);
  run = MIN(run, results * along & -(results * along));
  return results > 1 && (bytes == 2 || bytes == 4) && run * bytes >= RUN_BYTES;
}

static bool all_in_runs(const FusedOperator *op, const Elementwise *points)
{
  unsigned n = 0;
  for (unsigned i = 0; i < op->n_inputs; i++) {
    if (!elementwise_scatters(op, i)) continue;
    if (!in_runs(op, points, i)) return false;
    n++;
  }
  return n > 0;
}

static void exchange_last(Space *space)
{
  const unsigned a = space->rank - 2, b = space->rank - 1;
  const Symbolic *dim = space->dims[a], **strides = space->strides[a];
  space->dims[a] = space->dims[b];
  space->strides[a] = space->strides[b];
  space->dims[b] = dim;
  space->strides[b] = strides;
}

static bool bind(Binding *binding)
{
  const Program *program = binding->program;
  int first, axes[PROGRAM_MAX_AXES];
  unsigned n = 0;
  if (!bind_count(program, NODE_REDUCE, &first) || !bind_count(program, NODE_WRITE, &first)) return false;
  binding->walked = find_walks(binding);
  if (binding->why) return false;
  binding->near = true;
  binding->why = refuse_lengths(program, binding->walked);
  if (binding->why) return false;
  anchor_walks(binding);
  Elementwise *points;
  if (!bind_lists(binding) || !bind_points(binding, &points) || !bind_walks(binding, points)) return false;
  binding->fused->binding = points;
  binding->marked &= ~binding->walked;
  for (unsigned i = 0; i < program->n_axes; i++)
    if (!(binding->walked >> i & 1)) axes[n++] = (int)i;
  Space space;
  if (!bind_space(binding, &space, axes, n)) return false;
  if (!space_merge(program->arena, &space, 0, space.rank)) space_insert(program->arena, &space, 0);
  if (!bind_take_space(binding, &space)) return false;
  bind_point_dims(binding, &space, points);
  if (!stands_better(binding->fused)) return true;
  points->runs = all_in_runs(binding->fused, points);
  if (points->runs) return true;
  points->upright = true;
  exchange_last(&space);
  bind_take_points(binding, &space);
  bind_point_dims(binding, &space, points);
  return true;
}

FamilyMatch match_walk(const Program *program, FusedOperator *fused, const char **why)
{
  Binding binding = {.points = true, .lengths = true, .scatters = true};
  bool ok = bind_open(&binding, program, fused) && bind(&binding);
  *why = binding.near ? binding.why : NULL; /* few programs walk */
  bind_close(&binding);
  return ok ? MATCH_TAKEN : binding.near ? MATCH_NEARLY : MATCH_OTHER;
}

/* ---- for others ---- */

void visit_walk(const FusedOperator *op, const BindingVisitor *visitor)
{
  const Elementwise *points = elementwise_of(op);
  visit_points(op, points, visitor);
  for (unsigned i = 0; i < points->n_walks; i++) {
    const ElementWalk *walk = &points->walks[i];
    visitor->number(walk->reduction, visitor->data);
    visitor->number(walk->axes, visitor->data);
    visitor->number(walk->compute, visitor->data);
    visitor->operand(&walk->source, visitor->data);
    visitor->operand(&walk->place, visitor->data);
    visitor->operand(&walk->length, visitor->data);
    for (unsigned axis = 0; axis < op->program->n_axes; axis++)
      if (walk->axes >> axis & 1) visitor->expression(op->program->axes[axis].extent, visitor->data);
  }
}

void describe_walk(const FusedOperator *op, GString *text)
{
  const Elementwise *points = elementwise_of(op);
  describe_points(op, points, text);
  for (unsigned i = 0; i < points->n_walks; i++) {
    const ElementWalk *walk = &points->walks[i];
    g_string_append_printf(text, "  reduced%u: %s of ", walk->first, program_reduction_name(walk->reduction));
    fused_put_operand(text, op, &walk->source);
    for (unsigned axis = 0; axis < op->program->n_axes; axis++) {
      const ProgramAxis *along = &op->program->axes[axis];
      if (!(walk->axes >> axis & 1)) continue;
      g_string_append_printf(text, " along %s", along->name);
      fused_put_value(text, "of", along->extent);
    }
    if (walk->length.kind != OPERAND_ABSENT) {
      g_string_append(text, ", the first ");
      fused_put_operand(text, op, &walk->length);
    }
    g_string_append_printf(text, " in %s\n", number_name(walk->compute));
  }
}

unsigned types_walk(const FusedOperator *op, NumberType *types)
{
  return types_elementwise(op, types);
}

unsigned extents_walk(const FusedOperator *op, FamilyExtent *extents)
{
  return extents_elementwise(op, extents);
}

const FusedOperator *turned_walk(Arena *arena, const FusedOperator *op)
{
  return NULL;
}
