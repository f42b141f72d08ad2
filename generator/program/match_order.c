/* Keys in order: a counting sort, or what of it parts of the keys have to themselves. */
#include "generator/program/fused_text.h"
#include "generator/program/order.h"
#include "generator/program/space.h"

typedef struct {
  const Program *program;
  FusedOperator *fused;
  FusedOrder *bound;
  const char *why;
} Match;

static bool refuse(Match *at, const char *why)
{
  at->why = why;
  return false;
}

static const ProgramNode *find(const Program *program, ProgramReduction reduction)
{
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    if ((node->kind == NODE_SCAN || node->kind == NODE_REDUCE) && node->reduction == reduction) return node;
  }
  return NULL;
}

static const ProgramNode *node_of(const Match *at, const ProgramValue *value)
{
  return value->kind == VALUE_NODE ? &at->program->nodes[value->node] : NULL;
}

static const ProgramNode *read_of(const Match *at, const ProgramValue *value)
{
  const ProgramNode *node = node_of(at, value);
  return node && node->kind == NODE_READ ? node : NULL;
}

/* Inputs, in the order of reads: keys, then what is known of them. */
static bool take_nodes(Match *at)
{
  const Program *program = at->program;
  FusedOperator *fused = at->fused;
  fused->inputs = arena_new_array(program->arena, FusedInput, program->n_nodes);
  fused->outputs = arena_new_array(program->arena, FusedOutput, program->n_nodes);
  for (unsigned i = 0; i < ORDER_RESULTS; i++)
    at->bound->output[i] = PROGRAM_NONE;
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    if (node->kind == NODE_MAP) return refuse(at, "keys, or what comes of them, are computed with");
    if (node->kind == NODE_READ)
      fused->inputs[fused->n_inputs++] = (FusedInput){.tensor = node->access.tensor};
    if (node->kind != NODE_WRITE) continue;
    const ProgramNode *from = node_of(at, &node->operands[0]);
    if (!from || from->kind == NODE_READ || from->kind == NODE_INDEX)
      return refuse(at, "something else is written, too");
    if (node->combines) return refuse(at, "parts of its values are combined");
    bool places = from->reduction == REDUCTION_PLACES || from->reduction == REDUCTION_TAKEN;
    OrderResult result = places                                   ? ORDER_PLACES
                         : from->reduction == REDUCTION_ENDS_OF   ? ORDER_ENDS
                         : from->reduction == REDUCTION_SOURCE_OF ? ORDER_SOURCES
                                                                  : ORDER_TALLIES;
    at->bound->output[result] = (int)fused->n_outputs;
    fused->outputs[fused->n_outputs++] = (FusedOutput){
        .tensor = node->access.tensor, .value = {OPERAND_ANCHOR, 0, 0, NUMBER_S32}, .anchor_output = result};
    if (!graph_is_row_major(node->access.tensor)) return refuse(at, "results do not lie row by row");
  }
  return true;
}

static bool take_keys(Match *at, const ProgramNode *keys)
{
  FusedOrder *bound = at->bound;
  const GraphTensor *tensor = keys->access.tensor;
  Arena *arena = at->program->arena;
  if (tensor->rank != 2) return refuse(at, "keys are no matrix");
  bound->tokens = tensor->shape[0];
  bound->each = tensor->shape[1];
  bound->strides[0] = tensor->strides[0];
  bound->strides[1] = tensor->strides[1];
  bound->elements = symbolic_mul(arena, bound->tokens, bound->each);
  bound->parts = symbolic_constant(arena, 1);
  bound->rows = bound->elements;
  bound->align = 1;
  return true;
}

static bool bind_tallies(Match *at, const ProgramNode *tally)
{
  const Program *program = at->program;
  const ProgramNode *keys = read_of(at, &tally->operands[0]);
  FusedOrder *bound = at->bound;
  if (!keys || !take_nodes(at) || !take_keys(at, keys)) return false;
  if (tally->reduction == REDUCTION_TALLY_MAGNITUDES) {
    bound->magnitudes = true;
    bound->based = tally->operands[2].kind == VALUE_NODE;
    bound->shift = (int64_t)tally->operands[3].immediate;
    bound->above = tally->operands[4].immediate != 0;
  }
  const GraphTensor *tallies = at->fused->outputs[0].tensor;
  bound->tallies = true;
  bound->parts = tallies->shape[0];
  return symbolic_is_constant(tallies->shape[1], &bound->bins) &&
         symbolic_is_constant(program->axes[__builtin_ctz(tally->axes)].extent, &bound->part);
}

static bool bind_places(Match *at, const ProgramNode *places)
{
  FusedOrder *bound = at->bound;
  const ProgramNode *keys = read_of(at, &places->operands[0]), *known = read_of(at, &places->operands[3]);
  if (!keys || !take_nodes(at) || !take_keys(at, keys)) return false;
  bound->bins = (int64_t)places->operands[1].immediate;
  bound->align = (int64_t)places->operands[2].immediate;
  bound->known = known != NULL;
  bound->part = graph_attribute(places->source, "part")->integer;
  if (known) bound->parts = known->access.tensor->shape[0];
  if (bound->output[ORDER_SOURCES] != PROGRAM_NONE)
    bound->rows = at->fused->outputs[bound->output[ORDER_SOURCES]].tensor->shape[0];
  return true;
}

static bool bind_taken(Match *at, const ProgramNode *taken)
{
  const ProgramNode *keys = read_of(at, &taken->operands[0]), *known = read_of(at, &taken->operands[3]);
  FusedOrder *bound = at->bound;
  if (!keys || !known || !take_nodes(at) || !take_keys(at, keys)) return false;
  bound->magnitudes = bound->based = bound->taken = bound->known = true;
  bound->shift = (int64_t)taken->operands[2].immediate;
  bound->part = graph_attribute(taken->source, "part")->integer;
  bound->parts = known->access.tensor->shape[0];
  bound->bins = 2;
  if (bound->output[ORDER_SOURCES] != PROGRAM_NONE)
    bound->rows = at->fused->outputs[bound->output[ORDER_SOURCES]].tensor->shape[0];
  return true;
}

static bool bind_counted(Match *at, const ProgramNode *node)
{
  if (node->reduction == REDUCTION_TAKEN) return bind_taken(at, node);
  return node->reduction == REDUCTION_PLACES ? bind_places(at, node) : bind_tallies(at, node);
}

/* Elements, those of whole parts and rows are counted in 32 bits. */
static bool counts_elements(Match *at)
{
  const FusedOrder *bound = at->bound;
  int64_t elements = 0, parts = 1, rows = 0;
  symbolic_is_constant(bound->elements, &elements);
  symbolic_is_constant(bound->parts, &parts);
  symbolic_is_constant(bound->rows, &rows);
  if (elements <= SPACE_COUNTED && parts <= SPACE_COUNTED / MAX(bound->part, 1) && rows <= SPACE_COUNTED)
    return true;
  return refuse(at, "keys, those of whole parts or rows are more than 2147418112");
}

FamilyMatch match_order(const Program *program, FusedOperator *fused, const char **why)
{
  static const ProgramReduction counted[] = {REDUCTION_TALLY, REDUCTION_TALLY_MAGNITUDES, REDUCTION_PLACES,
                                             REDUCTION_TAKEN};
  const ProgramNode *node = NULL;
  for (unsigned i = 0; i < G_N_ELEMENTS(counted) && !node; i++)
    node = find(program, counted[i]);
  *why = NULL;
  if (!node) return MATCH_OTHER;
  FusedOrder *bound = arena_new_object(program->arena, FusedOrder);
  Match at = {.program = program, .fused = fused, .bound = bound};
  fused->binding = bound;
  fused->anchor = node->source;
  if (fused->anchor && bind_counted(&at, node) && counts_elements(&at)) return MATCH_TAKEN;
  *why = at.why ? at.why : "it is no counting sort of keys";
  return MATCH_NEARLY;
}

/* ---- for others ---- */

void visit_order(const FusedOperator *op, const BindingVisitor *visitor)
{
  const FusedOrder *order = order_of(op);
  const int64_t numbers[] = {order->tallies, order->known, order->magnitudes, order->based, order->above,
                             order->taken,   order->shift, order->bins,       order->align, order->part};
  const Symbolic *const expressions[] = {order->tokens,     order->each,  order->strides[0],
                                         order->strides[1], order->parts, order->rows};
  for (unsigned i = 0; i < G_N_ELEMENTS(numbers); i++)
    visitor->number(numbers[i], visitor->data);
  for (unsigned i = 0; i < ORDER_RESULTS; i++)
    visitor->number(order->output[i], visitor->data);
  for (unsigned i = 0; i < G_N_ELEMENTS(expressions); i++)
    visitor->expression(expressions[i], visitor->data);
}

void describe_order(const FusedOperator *op, GString *text)
{
  const FusedOrder *order = order_of(op);
  g_string_append_printf(text, "  %s %" G_GINT64_FORMAT " keys", order->tallies ? "counts" : "puts in order",
                         order->bins);
  fused_put_value(text, "of", order->elements);
  fused_put_value(text, "in parts:", order->parts);
  g_string_append(text, "\n");
}

unsigned types_order(const FusedOperator *op, NumberType *types)
{
  types[0] = op->inputs[0].tensor->type;
  return 1;
}

unsigned extents_order(const FusedOperator *op, FamilyExtent *extents)
{
  extents[0] = (FamilyExtent){"t", order_of(op)->tokens};
  extents[1] = (FamilyExtent){"k", order_of(op)->each};
  extents[2] = (FamilyExtent){"e", symbolic_constant(op->program->arena, order_of(op)->bins)};
  return 3;
}

const FusedOperator *turned_order(Arena *arena, const FusedOperator *op)
{
  return NULL;
}
