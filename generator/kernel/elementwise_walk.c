/* Elementwise kernels whose points reduce elements of their own: a loop along each axis that is walked, in the order of its
 * indices, so that results are the same bits every run. What does not change along these axes is computed in front. */
#include "generator/kernel/elementwise.h"
#include <string.h>

/* Steps that are written out of a loop whose length is loaded, for the same: those behind a point's last load nothing. */
#define UNROLLED_STEPS 4

typedef struct {
  StepScope *scope;
  const Program *program;
  const Elementwise *points;
  unsigned first, n;      /* walks that share a loop */
  uint32_t axes;          /* of theirs */
  bool *needed;           /* by node: they are computed from it */
  IrExpr **values;        /* by walk of these: what it has so far, */
  IrExpr **places;        /* and where that is */
  const unsigned *inputs; /* by node: the operator's input, of reads; */
  const unsigned *steps;  /* step, of maps */
} Loop;

static IrType tile_type(StepScope *scope, NumberType element, bool wide)
{
  const ElementPoint *place = scope->data;
  int64_t extent[2] = {place->groups, wide ? place->vector : 1};
  return ir_tile(scope->build->module, element, 2, extent, NULL);
}

/* ---- what there is before anything was seen ---- */

static IrExpr *extreme(IrModule *module, NumberType type, bool largest)
{
  if (number_class(type) == NUMBER_FLOAT) return ir_float(module, largest ? INFINITY : -INFINITY);
  if (number_bits(type) == 64) return ir_int(module, largest ? INT64_MAX : INT64_MIN);
  return ir_int(module, largest ? INT32_MAX : INT32_MIN);
}

static IrExpr *identity_of(IrModule *module, const ElementWalk *walk)
{
  bool floats = number_class(walk->compute) == NUMBER_FLOAT;
  switch ((unsigned)walk->reduction) {
  case REDUCTION_MAX:
  case REDUCTION_ARG_MAX: return extreme(module, walk->compute, false);
  case REDUCTION_MIN:
  case REDUCTION_ARG_MIN: return extreme(module, walk->compute, true);
  case REDUCTION_PROD: return floats ? ir_float(module, 1) : ir_int(module, 1);
  default: return floats ? ir_float(module, 0) : ir_int(module, 0);
  }
}

static bool finds_place(const ElementWalk *walk)
{
  return walk->reduction == REDUCTION_ARG_MAX || walk->reduction == REDUCTION_ARG_MIN;
}

static bool is_wide(const FusedOperator *op, const ElementWalk *walk)
{
  return elementwise_varies(op, &walk->source) || elementwise_varies(op, &walk->place);
}

static void open_values(Loop *loop)
{
  StepScope *scope = loop->scope;
  const FusedOperator *op = scope->build->op;
  IrModule *module = scope->build->module;
  for (unsigned i = 0; i < loop->n; i++) {
    const ElementWalk *walk = &loop->points->walks[loop->first + i];
    bool wide = is_wide(op, walk);
    loop->values[i] = ir_emit_value(&scope->builder, OP_VAR, tile_type(scope, walk->compute, wide), "walk", 1,
                                    identity_of(module, walk));
    if (finds_place(walk))
      loop->places[i] = ir_emit_value(&scope->builder, OP_VAR, tile_type(scope, NUMBER_S32, wide), "place", 1,
                                      extreme(module, NUMBER_S32, true));
  }
}

/* ---- a step of the loop ---- */

static IrExpr *emit(StepScope *scope, IrOpcode code, IrType type, const char *name, IrExpr *a, IrExpr *b)
{
  IrExpr *value = ir_emit_value(&scope->builder, code, type, name, 2, a, b);
  bool exact = (code == OP_MIN || code == OP_MAX) && number_class(type.element) == NUMBER_FLOAT;
  if (exact) ir_attribute_set(value->value->def, ATTR_NAN, NULL);
  return value;
}

static IrOpcode code_of(ProgramReduction reduction)
{
  switch ((unsigned)reduction) {
  case REDUCTION_MAX: return OP_MAX;
  case REDUCTION_MIN: return OP_MIN;
  case REDUCTION_PROD: return OP_MUL;
  default: return OP_ADD;
  }
}

/* A value takes the place of one that is less (or greater), and of an equal one at a later place; NaN that of all numbers. */
static void take_place(Loop *loop, unsigned i, IrExpr *value, IrExpr *place)
{
  StepScope *scope = loop->scope;
  const ElementWalk *walk = &loop->points->walks[loop->first + i];
  IrType truth = loop->values[i]->value->type, whole = loop->places[i]->value->type;
  IrExpr *best = loop->values[i], *at = loop->places[i];
  IrOpcode beats = walk->reduction == REDUCTION_ARG_MAX ? OP_GT : OP_LT;
  truth.element = NUMBER_BOOL;
  IrExpr *better = emit(scope, beats, truth, "better", value, best);
  IrExpr *equal = emit(scope, OP_EQ, truth, "equal", value, best);
  IrExpr *earlier = emit(scope, OP_LT, truth, "earlier", place, at);
  IrExpr *takes =
      emit(scope, OP_OR, truth, "takes", better, emit(scope, OP_AND, truth, "ties", equal, earlier));
  if (number_class(walk->compute) == NUMBER_FLOAT) {
    IrExpr *nan = emit(scope, OP_NE, truth, "nan", value, value);
    IrExpr *number = emit(scope, OP_EQ, truth, "number", best, best);
    takes = emit(scope, OP_OR, truth, "takes", takes, emit(scope, OP_AND, truth, "spoils", nan, number));
  }
  IrExpr *chosen =
      ir_emit_value(&scope->builder, OP_SELECT, best->value->type, "best", 3, takes, value, best);
  IrExpr *where = ir_emit_value(&scope->builder, OP_SELECT, whole, "where", 3, takes, place, at);
  ir_emit(&scope->builder, OP_SET, 2, best, chosen);
  ir_emit(&scope->builder, OP_SET, 2, at, where);
}

/* Steps that a point does not have change nothing. */
static IrExpr *of_own(const Loop *loop, unsigned i, IrExpr *value)
{
  const ElementWalk *walk = &loop->points->walks[loop->first + i];
  const ElementPoint *place = loop->scope->data;
  IrType type = loop->values[i]->value->type;
  if (!place->more) return value;
  return ir_emit_value(&loop->scope->builder, OP_SELECT, type, "own", 3, place->more, value,
                       identity_of(loop->scope->build->module, walk));
}

static void take_values(Loop *loop)
{
  StepScope *scope = loop->scope;
  StepWriter writer = kernel_steps(scope->build, &scope->builder);
  for (unsigned i = 0; i < loop->n; i++) {
    const ElementWalk *walk = &loop->points->walks[loop->first + i];
    scope->builder.mark = walk->node ? walk->node->mark : (Mark){0};
    IrExpr *value =
        of_own(loop, i, step_convert(&writer, scope_operand(scope, &walk->source), walk->compute));
    if (finds_place(walk)) {
      take_place(loop, i, value, step_convert(&writer, scope_operand(scope, &walk->place), NUMBER_S32));
      continue;
    }
    IrType type = loop->values[i]->value->type;
    ir_emit(&scope->builder, OP_SET, 2, loop->values[i],
            emit(scope, code_of(walk->reduction), type, "sum", loop->values[i], value));
  }
}

/* ---- what they are computed from ---- */

/* Nodes that the loop needs: those along its axes, or the others, which stand in front of it. */
static bool write_needed(Loop *loop, bool along)
{
  StepScope *scope = loop->scope;
  const FusedOperator *op = scope->build->op;
  for (unsigned i = 0; i < loop->program->n_nodes; i++) {
    const ProgramNode *node = &loop->program->nodes[i];
    bool varies = (loop->program->varies[i] & loop->axes) != 0;
    if (!loop->needed[i] || varies != along) continue;
    if (node->kind == NODE_READ && !along) {
      FusedOperand input = {OPERAND_INPUT, loop->inputs[i], 0, op->inputs[loop->inputs[i]].tensor->type};
      scope_operand(scope, &input);
    }
    bool step = node->kind == NODE_MAP && !scope->step_values[loop->steps[i]];
    if (step && !scope_write_step(scope, loop->steps[i])) return false;
  }
  return true;
}

/* Values along the loop's axes end with it. */
static void forget(Loop *loop)
{
  for (unsigned i = 0; i < loop->program->n_nodes; i++) {
    if (!(loop->program->varies[i] & loop->axes)) continue;
    ProgramNodeKind kind = loop->program->nodes[i].kind;
    if (kind == NODE_READ) loop->scope->input_values[loop->inputs[i]] = NULL;
    if (kind == NODE_MAP) loop->scope->step_values[loop->steps[i]] = NULL;
  }
}

/* ---- loops ---- */

static void walk_along(StepScope *scope, unsigned axis, IrExpr *step)
{
  ElementPoint *place = scope->data;
  place->steps[axis] = step;
  place->walked[axis] = ir_emit_value(&scope->builder, OP_CAST, ir_scalar(NUMBER_S64), "walked", 1, step);
}

static IrRegion *add_loop(StepScope *scope, IrExpr *end, int64_t step, bool unroll, IrExpr **index)
{
  IrModule *module = scope->build->module;
  IrOp *op = ir_emit(&scope->builder, OP_FOR, 3, ir_int(module, 0), end, ir_int(module, step));
  if (unroll) ir_attribute_set(op, ATTR_UNROLL, NULL);
  IrRegion *region = ir_region_add(op);
  *index = ir_value(module, ir_argument_add(region, "step", ir_scalar(NUMBER_S32)));
  return region;
}

static void go_into(StepScope *scope, IrRegion *region)
{
  Mark mark = scope->builder.mark;
  scope->builder = ir_builder_at_end(region);
  scope->builder.mark = mark;
}

/* A loop at the end of the builder's region; the builder goes on in its body. `unrolled`: steps of what is written out so
 * far. */
static void open_loop(Loop *loop, unsigned axis, int64_t *unrolled)
{
  StepScope *scope = loop->scope;
  ElementPoint *place = scope->data;
  int64_t steps;
  IrExpr *index, *extent = kernel_dim(scope->build, loop->program->axes[axis].extent, "extent", NUMBER_S32);
  bool unroll = ir_expr_is_int(extent, &steps) && steps > 0 &&
                steps * *unrolled * place->vector <= ELEMENTWISE_UNROLLED;
  if (unroll) *unrolled *= steps;
  go_into(scope, add_loop(scope, extent, 1, unroll, &index));
  walk_along(scope, axis, index);
}

/* The same where each point has so many indices of the axis as are loaded: warps leave it behind the last of theirs. */
static void open_counted_loop(Loop *loop, unsigned axis, const FusedOperand *length)
{
  StepScope *scope = loop->scope;
  ElementPoint *place = scope->data;
  IrModule *module = scope->build->module;
  IrExpr *extent = kernel_dim(scope->build, loop->program->axes[axis].extent, "extent", NUMBER_S32),
         *own = scope_operand(scope, length), *first, *next;
  if (step_element(own, NUMBER_S32) != NUMBER_S32)
    own = element_wide(scope, OP_CAST, NUMBER_S32, "own", own, NULL);
  go_into(scope, add_loop(scope, extent, UNROLLED_STEPS, false, &first));
  IrExpr *left = element_wide(scope, OP_GT, NUMBER_BOOL, "left", own, first);
  left = element_wide(scope, OP_AND, NUMBER_BOOL, "left", left, place->inside);
  IrExpr *any = ir_emit_value(&scope->builder, OP_SOME, ir_predicate(), "any", 1, left);
  ir_emit(&scope->builder, OP_BREAK_IF, 1, ir_unary(module, OPERATOR_NOT, any));
  go_into(scope, add_loop(scope, ir_int(module, UNROLLED_STEPS), 1, true, &next));
  IrExpr *step = ir_emit_value(&scope->builder, OP_LET, ir_scalar(NUMBER_S32), "step", 1,
                               ir_binary(module, OPERATOR_ADD, first, next));
  place->more = element_wide(scope, OP_GT, NUMBER_BOOL, "more", own, step);
  walk_along(scope, axis, step);
}

static void open_loops(Loop *loop)
{
  const FusedOperand *length = &loop->points->walks[loop->first].length;
  int64_t unrolled = 1;
  for (unsigned axis = 0; axis < loop->program->n_axes; axis++) {
    if (!(loop->axes >> axis & 1)) continue;
    if (length->kind != OPERAND_ABSENT)
      open_counted_loop(loop, axis, length);
    else
      open_loop(loop, axis, &unrolled);
  }
}

static bool write_loop(Loop *loop)
{
  StepScope *scope = loop->scope;
  ElementPoint *place = scope->data;
  if (!write_needed(loop, false)) return false;
  open_values(loop);
  IrBuilder outside = scope->builder;
  open_loops(loop);
  if (!write_needed(loop, true)) return false;
  take_values(loop);
  scope->builder = outside;
  place->more = NULL;
  memset(place->walked, 0, sizeof place->walked);
  memset(place->steps, 0, sizeof place->steps);
  forget(loop);
  for (unsigned i = 0; i < loop->n; i++) {
    const ElementWalk *walk = &loop->points->walks[loop->first + i];
    scope->reduced[walk->first] = loop->values[i];
    if (finds_place(walk)) scope->reduced[walk->first + 1] = loop->places[i];
  }
  return true;
}

/* Walks behind `first` along the same axes, computed from none of those between. */
static unsigned count_together(const Loop *loop)
{
  const ElementWalk *walks = loop->points->walks;
  unsigned n = 1;
  for (; loop->first + n < loop->points->n_walks; n++) {
    const ElementWalk *next = &walks[loop->first + n];
    if (next->axes != walks[loop->first].axes) break;
    g_autofree bool *from = program_ancestors(loop->program, next->at);
    bool waits = false;
    for (unsigned i = 0; i < n; i++)
      waits |= from[walks[loop->first + i].at];
    if (waits) break;
  }
  return n;
}

static void find_needed(Loop *loop)
{
  memset(loop->needed, 0, loop->program->n_nodes * sizeof *loop->needed);
  for (unsigned i = 0; i < loop->n; i++) {
    g_autofree bool *from = program_ancestors(loop->program, loop->points->walks[loop->first + i].at);
    for (unsigned j = 0; j < loop->program->n_nodes; j++)
      loop->needed[j] |= from[j];
  }
  int length = elementwise_length(loop->program, loop->axes);
  g_autofree bool *from = length == PROGRAM_NONE ? NULL : program_ancestors(loop->program, (unsigned)length);
  for (unsigned j = 0; from && j < loop->program->n_nodes; j++)
    loop->needed[j] |= from[j];
}

/* Inputs follow from the reads, and steps from the maps, in their order. */
static void number_nodes(const Program *program, unsigned *inputs, unsigned *steps)
{
  unsigned input = 0, step = 0;
  for (unsigned i = 0; i < program->n_nodes; i++) {
    inputs[i] = input;
    steps[i] = step;
    input += program->nodes[i].kind == NODE_READ;
    step += program->nodes[i].kind == NODE_MAP;
  }
}

bool element_write_walks(StepScope *scope)
{
  const FusedOperator *op = scope->build->op;
  const Program *program = op->program;
  const Elementwise *points = elementwise_of(op);
  g_autofree bool *needed = g_new0(bool, program->n_nodes + 1);
  g_autofree unsigned *inputs = g_new0(unsigned, program->n_nodes + 1),
                      *steps = g_new0(unsigned, program->n_nodes + 1);
  g_autofree IrExpr **values = g_new0(IrExpr *, points->n_walks),
                    **places = g_new0(IrExpr *, points->n_walks);
  Loop loop = {.scope = scope,
               .program = program,
               .points = points,
               .needed = needed,
               .values = values,
               .places = places,
               .inputs = inputs,
               .steps = steps};
  uint32_t walked = 0;
  number_nodes(program, inputs, steps);
  scope->reduced = arena_new_array(scope->build->module->arena, IrExpr *, 2 * points->n_walks);
  for (; loop.first < points->n_walks; loop.first += loop.n) {
    loop.axes = points->walks[loop.first].axes;
    loop.n = count_together(&loop);
    walked |= loop.axes;
    find_needed(&loop);
    if (!write_loop(&loop)) return false;
  }
  for (unsigned i = 0; i < op->n_steps; i++)
    if (!scope->step_values[i] && !(program->varies[op->steps[i].at] & walked) && !scope_write_step(scope, i))
      return false;
  return true;
}
