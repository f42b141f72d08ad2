/* VarlenAttention: attention of sequences whose rows lie behind one another, as one program.
 *
 *   axis m: T length %2                           rows of sequence b
 *   axis t: N length %5                           its keys
 *   %1 = scan begins {b} ends[b + 1]              where its rows begin; %2 = scan lengths: how many there are
 *   %3 = reduce dot {d} q[%1 + m, h*G + g, d], k[...]
 *   with sinks, times Sigmoid(L - sink[h*G + g]), L being ln sum e^score, which becomes max(L, sink) + Softplus(-|L - sink|)
 *   with a tree, hidden where t is behind %5 - %2 and its bit of tree[%1 + m, ...] is 0
 *   with slopes, + slope[h*G + g] (t - m), scaled, capped, masked by t - m; softmax along t; reduce dot {t} with v; write y[%1 + m, h*G + g, e]
 *
 * Scales of keys of 8 bits multiply the product; those of values the weights, where they differ from key to key, or the result.
 */
#include "generator/front/sequences.h"
#include "generator/program/build_private.h"
#include <float.h>
#include <string.h>

typedef struct {
  ProgramBuilder *at;
  const GraphNode *node;
  GraphKeys kind;
  int batch, head, group, row, key, width, depth; /* axes */
  const Symbolic *heads;                          /* that share keys and values */
  ProgramValue begin, rows; /* of a sequence: where its rows begin, how many there are */
  ProgramValue first, keys; /* the same of its keys; ABSENT: they begin at 0 */
} Sequences;

static const ProgramValue none = {.kind = VALUE_ABSENT};

static const Symbolic *symbol(const Sequences *s, int axis)
{
  return s->at->program->axes[axis].symbol;
}

static ProgramValue whole(Sequences *s, OperatorId op, ProgramValue a, ProgramValue b)
{
  return program_add_map(s->at, s->node, op, NUMBER_S64, NUMBER_S64, (ProgramValue[]){a, b}, 2);
}

/* ---- what is loaded ---- */

/* list[b + more] */
static ProgramValue load(Sequences *s, unsigned input, int64_t more)
{
  Arena *arena = s->at->program->arena;
  ProgramAccess access = {.tensor = s->node->inputs[input]};
  access.at[0] =
      (ProgramIndex){symbolic_add(arena, symbol(s, s->batch), symbolic_constant(arena, more)), PROGRAM_NONE};
  return program_read_once(s->at, s->node, access);
}

static ProgramValue scan(Sequences *s, ProgramReduction which)
{
  const ProgramValue operands[] = {load(s, SEQUENCES_ENDS, 1), program_immediate(1, NUMBER_S32)};
  ProgramNode row = {.kind = NODE_SCAN,
                     .source = s->node,
                     .reduction = which,
                     .axes = 1u << s->batch,
                     .type = NUMBER_S32,
                     .compute = NUMBER_S32};
  return program_add_node(s->at, row, operands, G_N_ELEMENTS(operands), NUMBER_S32);
}

/* No less than 0, no more than there are keys. */
static ProgramValue within(Sequences *s, ProgramValue value)
{
  ProgramValue all = program_add_index(s->at, s->node, s->at->program->axes[s->key].extent);
  return whole(s, ONNX_Max, whole(s, ONNX_Min, value, all), program_immediate(0, NUMBER_S64));
}

static void load_lengths(Sequences *s)
{
  Program *program = s->at->program;
  s->begin = scan(s, REDUCTION_BEGINS);
  s->rows = scan(s, REDUCTION_LENGTHS);
  s->first = s->kind == KEYS_OWN ? s->begin : none;
  s->keys = s->rows;
  if (s->kind == KEYS_PACKED) {
    s->first = within(s, load(s, SEQUENCES_KEY_ENDS, 0));
    ProgramValue end = within(s, load(s, SEQUENCES_KEY_ENDS, 1));
    s->keys = whole(s, ONNX_Max, whole(s, ONNX_Sub, end, s->first), program_immediate(0, NUMBER_S64));
  } else if (s->kind != KEYS_OWN) {
    s->keys = within(s, load(s, SEQUENCES_LENGTHS, 0));
  }
  program->axes[s->row].length = (int)s->rows.node;
  program->axes[s->key].length = (int)s->keys.node;
}

/* ---- operands and results ---- */

/* The head of the group. */
static const Symbolic *query_head(const Sequences *s)
{
  Arena *arena = s->at->program->arena;
  const Symbolic *head = symbolic_mul(arena, symbol(s, s->head), s->heads);
  return s->group != PROGRAM_NONE ? symbolic_add(arena, head, symbol(s, s->group)) : head;
}

/* Row m of the sequence, and that head. */
static ProgramAccess row_access(const Sequences *s, const GraphTensor *tensor, int last)
{
  ProgramAccess access = {.tensor = tensor};
  access.at[0] = (ProgramIndex){symbol(s, s->row), (int)s->begin.node};
  access.at[1] = (ProgramIndex){query_head(s), PROGRAM_NONE};
  if (tensor->rank > 2) access.at[2] = (ProgramIndex){symbol(s, last), PROGRAM_NONE};
  return access;
}

static ProgramValue read_keys(Sequences *s, unsigned input, int last)
{
  const GraphTensor *tensor = s->node->inputs[input];
  ProgramAccess access = {.tensor = tensor};
  unsigned head = tensor->rank - 2;
  if (s->kind == KEYS_PAGES)
    access = program_page_access(s->at, s->node, tensor, s->node->inputs[SEQUENCES_TABLE],
                                 symbol(s, s->batch), symbol(s, s->key));
  else
    access.at[head - 1] =
        (ProgramIndex){symbol(s, s->key), s->first.kind == VALUE_NODE ? (int)s->first.node : PROGRAM_NONE};
  if (s->kind == KEYS_CACHE) access.at[0] = (ProgramIndex){symbol(s, s->batch), PROGRAM_NONE};
  access.at[head] = (ProgramIndex){symbol(s, s->head), PROGRAM_NONE};
  access.at[head + 1] = (ProgramIndex){symbol(s, last), PROGRAM_NONE};
  return program_add_read(s->at, s->node, access);
}

/* The scale of keys or values, if it differs from key to key (`along`), or if it does not; else ABSENT. */
static ProgramValue read_scale(Sequences *s, unsigned input, bool along)
{
  const GraphNode *node = s->node;
  const GraphTensor *scale = node->n_inputs > input ? node->inputs[input] : NULL;
  const unsigned rank = node->inputs[SEQUENCES_K]->rank;
  double value;
  bool varies = false;
  if (!scale) return none;
  if (graph_scalar(scale, &value)) return along ? none : program_immediate(value, scale->type);
  ProgramAccess access = {.tensor = scale};
  bool paged = graph_scale_is_paged(node, scale, node->inputs[SEQUENCES_K]);
  if (paged && !along) return none;
  if (paged)
    access = program_page_access(s->at, node, scale, node->inputs[SEQUENCES_TABLE], symbol(s, s->batch),
                                 symbol(s, s->key));
  for (unsigned d = paged ? 2 : 0; d < scale->rank; d++) {
    unsigned of = rank - scale->rank + d;
    bool still = symbolic_equals(scale->shape[d], 1);
    int axis = of == rank - 2 ? s->head : of == rank - 3 ? s->key : s->batch;
    access.at[d] =
        (ProgramIndex){still ? symbolic_constant(s->at->program->arena, 0) : symbol(s, axis), PROGRAM_NONE};
    varies |= !still && axis == s->key;
  }
  return (varies || paged) == along ? program_add_read(s->at, node, access) : none;
}

static ProgramValue times(Sequences *s, ProgramValue value, ProgramValue scale)
{
  return scale.kind == VALUE_ABSENT ? value : program_add_number(s->at, s->node, ONNX_Mul, value, scale);
}

/* One number for each head of queries, or one for all. */
static ProgramValue read_of_heads(Sequences *s, const GraphTensor *numbers)
{
  ProgramAccess access = {.tensor = numbers};
  const Symbolic *first = symbolic_constant(s->at->program->arena, 0);
  for (unsigned d = 0; d < numbers->rank; d++)
    access.at[d] = (ProgramIndex){graph_has_one_element(numbers) ? first : query_head(s), PROGRAM_NONE};
  return program_add_read(s->at, s->node, access);
}

/* Scores that lean by head, in f32, where masks count key - row from. `by`: slopes are those of scores divided by it. */
static ProgramValue leant(Sequences *s, ProgramValue scores, bool ending, double by)
{
  ProgramBuilder *at = s->at;
  Arena *arena = at->program->arena;
  const GraphTensor *slopes = s->node->n_inputs > SEQUENCES_SLOPES ? s->node->inputs[SEQUENCES_SLOPES] : NULL;
  if (!slopes) return scores;
  ProgramValue slope = read_of_heads(s, slopes);
  if (by != 1)
    slope = program_add_number(at, s->node, ONNX_Mul, slope, program_immediate((float)(1 / by), NUMBER_F32));
  ProgramValue distance =
      program_add_index(at, s->node, symbolic_sub(arena, symbol(s, s->key), symbol(s, s->row)));
  if (ending) distance = whole(s, ONNX_Sub, distance, whole(s, ONNX_Sub, s->keys, s->rows));
  distance = program_add_number(at, s->node, ONNX_Cast, distance, none);
  return program_add_number(at, s->node, ONNX_Add, scores,
                            program_add_number(at, s->node, ONNX_Mul, distance, slope));
}

static ProgramValue shifted_right(Sequences *s, ProgramValue value, ProgramValue by)
{
  const Operator *op = operator_of(ONNX_BitShift);
  GraphAttribute *attributes = arena_new_array(s->at->program->arena, GraphAttribute, op->n_attributes);
  attributes[operator_attribute_index(op, "direction")].text = "RIGHT";
  const ProgramValue operands[] = {value, by};
  ProgramNode shift = {.kind = NODE_MAP,
                       .source = s->node,
                       .op = ONNX_BitShift,
                       .attributes = attributes,
                       .type = NUMBER_S64,
                       .compute = NUMBER_S64};
  return program_add_node(s->at, shift, operands, G_N_ELEMENTS(operands), NUMBER_S64);
}

static ProgramValue truth(Sequences *s, OperatorId op, NumberType compute, ProgramValue a, ProgramValue b)
{
  return program_add_map(s->at, s->node, op, NUMBER_BOOL, compute, (ProgramValue[]){a, b}, 2);
}

/* Of the keys that the rows brought along each sees those that its bits name; what has no bit is hidden. match_sequences.c knows the form. */
static ProgramValue branched(Sequences *s, ProgramValue scores)
{
  const GraphTensor *tree = s->node->n_inputs > SEQUENCES_TREE ? s->node->inputs[SEQUENCES_TREE] : NULL;
  if (!tree) return scores;
  const ProgramValue zero = program_immediate(0, NUMBER_S64),
                     width = program_immediate(SEQUENCES_WORD, NUMBER_S64);
  ProgramValue key = program_add_index(s->at, s->node, symbol(s, s->key));
  ProgramValue own = whole(s, ONNX_Sub, key, whole(s, ONNX_Sub, s->keys, s->rows));
  ProgramAccess access = {.tensor = tree, .outside = OUTSIDE_FILL};
  access.at[0] = (ProgramIndex){symbol(s, s->row), (int)s->begin.node};
  access.at[1] = program_index_of(s->at, whole(s, ONNX_Div, own, width));
  ProgramValue word = program_add_read(s->at, s->node, access);
  ProgramValue place = whole(s, ONNX_BitwiseAnd, own, program_immediate(SEQUENCES_WORD - 1, NUMBER_S64));
  ProgramValue bit =
      whole(s, ONNX_BitwiseAnd, shifted_right(s, word, place), program_immediate(1, NUMBER_S64));
  ProgramValue seen = truth(s, ONNX_Or, NUMBER_BOOL, truth(s, ONNX_Less, NUMBER_S64, own, zero),
                            truth(s, ONNX_Greater, NUMBER_S64, bit, zero));
  return program_hidden_but(s->at, s->node, seen, scores);
}

static void write(Sequences *s, unsigned output, ProgramValue value)
{
  if (s->node->n_outputs <= output || !s->node->outputs[output]) return;
  const GraphTensor *tensor = s->node->outputs[output];
  program_write(s->at, s->node, row_access(s, tensor, s->width), value);
}

/* What the sink leaves of the result, and of the sums, unless they are NULL, with it. Rows that see no key have the sink alone: 0.
 * A sink of -infinity is none: where sums are so too, their difference is to be a number. */
static ProgramValue sunk(Sequences *s, const GraphTensor *tensor, ProgramValue total, ProgramValue *sums)
{
  ProgramBuilder *at = s->at;
  const GraphNode *node = s->node;
  ProgramValue sink = read_of_heads(s, tensor),
               finite = program_add_number(at, node, ONNX_Max, sink, program_immediate(-FLT_MAX, NUMBER_F32)),
               above = program_add_number(at, node, ONNX_Sub, total, finite);
  if (sums) { /* of a small and a large number, too */
    ProgramValue apart = program_add_number(at, node, ONNX_Abs, above, none),
                 less = program_add_number(at, node, ONNX_Neg, apart, none),
                 more = program_add_number(at, node, ONNX_Softplus, less, none);
    *sums = program_add_number(at, node, ONNX_Add, program_add_number(at, node, ONNX_Max, total, sink), more);
  }
  return program_add_number(at, node, ONNX_Sigmoid, above, none);
}

/* ---- the whole ---- */

static int add_axis(Sequences *s, char letter, const Symbolic *extent)
{
  return program_add_axis(s->at, letter, -1, extent);
}

static void add_axes(Sequences *s)
{
  Arena *arena = s->at->program->arena;
  const GraphTensor *const *inputs = (const GraphTensor *const *)s->node->inputs;
  const GraphTensor *q = inputs[SEQUENCES_Q], *k = inputs[SEQUENCES_K], *v = inputs[SEQUENCES_V];
  const Symbolic *own = k->shape[k->rank - 2], *keys = k->shape[k->rank - 3];
  s->heads = symbolic_binary(arena, SYMBOLIC_DIV, q->shape[1], own);
  if (s->kind == KEYS_PAGES) keys = symbolic_mul(arena, inputs[SEQUENCES_TABLE]->shape[1], k->shape[1]);
  s->batch =
      add_axis(s, 'b', symbolic_sub(arena, inputs[SEQUENCES_ENDS]->shape[0], symbolic_constant(arena, 1)));
  s->head = add_axis(s, 'h', own);
  s->group = symbolic_equals(s->heads, 1) ? PROGRAM_NONE : add_axis(s, 'g', s->heads);
  s->row = add_axis(s, 'm', q->shape[0]);
  s->key = add_axis(s, 't', keys);
  s->width = add_axis(s, 'e', v->shape[v->rank - 1]);
  s->depth = add_axis(s, 'd', q->shape[2]);
}

void program_add_sequences(ProgramBuilder *at, const GraphNode *node)
{
  Sequences sequences = {.at = at, .node = node, .kind = graph_keys(node)}, *s = &sequences;
  add_axes(s);
  load_lengths(s);
  bool ending = !strcmp(graph_attribute(node, "diagonal")->text, "end") && s->kind != KEYS_OWN;
  ProgramValue q = program_add_read(at, node, row_access(s, node->inputs[SEQUENCES_Q], s->depth));
  ProgramValue product = program_add_dot(at, node, q, read_keys(s, SEQUENCES_K, s->depth), 1u << s->depth);
  product = times(s, product, read_scale(s, SEQUENCES_K_SCALE, true));
  product = times(s, product, read_scale(s, SEQUENCES_K_SCALE, false));
  double scale = program_score_scale(node, node->inputs[SEQUENCES_Q]);
  bool capped =
      graph_attribute(node, "softcap")->number > 0; /* else the scale goes behind, where it costs nothing */
  if (!capped) product = leant(s, product, ending, scale);
  ProgramValue scores = program_scores(at, node, product, scale, NULL);
  if (capped) scores = leant(s, scores, ending, 1);
  scores = branched(s, scores);
  scores = program_windowed(at, node, scores, s->row, s->key, ending ? s->keys : none, s->rows);
  ProgramValue peak = program_add_reduction(at, node, REDUCTION_MAX_SUM, 1u << s->key, NUMBER_F32, &scores);
  ProgramValue sum = peak;
  sum.result = 1;
  ProgramValue weights = program_add_weights(at, node, NUMBER_F32, scores, peak, sum, true);
  weights = times(s, weights, read_scale(s, SEQUENCES_V_SCALE, true));
  ProgramValue result = program_add_dot(at, node, weights, read_keys(s, SEQUENCES_V, s->width), 1u << s->key);
  const GraphTensor *sink = node->n_inputs > SEQUENCES_SINK ? node->inputs[SEQUENCES_SINK] : NULL;
  bool sums = node->n_outputs > 1 && node->outputs[1];
  ProgramValue total = sums || sink ? program_add_log_sum(at, node, NUMBER_F32, peak, sum) : none;
  if (sink) result = times(s, result, sunk(s, sink, total, sums ? &total : NULL));
  write(s, 0, times(s, result, read_scale(s, SEQUENCES_V_SCALE, false)));
  if (sums) write(s, 1, total);
}
