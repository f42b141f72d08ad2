/* VarlenAttention: attention of sequences whose rows lie behind one another, as one program.
 *
 *   axis m: T length %2                           rows of sequence b
 *   axis t: N length %5                           its keys
 *   %1 = scan begins {b} ends[b + 1]              where its rows begin; %2 = scan lengths: how many there are
 *   %3 = reduce dot {d} q[%1 + m, h*G + g, d], k[...]
 *   scaled, capped, masked by t - m; softmax along t; reduce dot {t} with v; write y[%1 + m, h*G + g, e]
 */
#include "generator/front/sequences.h"
#include "generator/program/build_private.h"
#include <math.h>
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

static ProgramValue map(Sequences *s, OperatorId op, NumberType type, NumberType compute, ProgramValue a,
                        ProgramValue b, ProgramValue c)
{
  const ProgramValue operands[] = {a, b, c};
  unsigned n = b.kind == VALUE_ABSENT ? 1 : c.kind == VALUE_ABSENT ? 2 : 3;
  return program_add_map(s->at, s->node, op, type, compute, operands, n);
}

static ProgramValue number(Sequences *s, OperatorId op, ProgramValue a, ProgramValue b)
{
  return map(s, op, NUMBER_F32, NUMBER_F32, a, b, none);
}

static ProgramValue whole(Sequences *s, OperatorId op, ProgramValue a, ProgramValue b)
{
  return map(s, op, NUMBER_S64, NUMBER_S64, a, b, none);
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

/* Row m of the sequence, and the head of the group. */
static ProgramAccess row_access(const Sequences *s, const GraphTensor *tensor, int last)
{
  Arena *arena = s->at->program->arena;
  ProgramAccess access = {.tensor = tensor};
  const Symbolic *head = symbolic_mul(arena, symbol(s, s->head), s->heads);
  if (s->group != PROGRAM_NONE) head = symbolic_add(arena, head, symbol(s, s->group));
  access.at[0] = (ProgramIndex){symbol(s, s->row), (int)s->begin.node};
  access.at[1] = (ProgramIndex){head, PROGRAM_NONE};
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

static void write(Sequences *s, unsigned output, ProgramValue value)
{
  if (s->node->n_outputs <= output || !s->node->outputs[output]) return;
  const GraphTensor *tensor = s->node->outputs[output];
  ProgramNode row = {.kind = NODE_WRITE,
                     .source = s->node,
                     .type = tensor->type,
                     .compute = tensor->type,
                     .access = row_access(s, tensor, s->width)};
  program_add_node(s->at, row, &value, 1, tensor->type);
}

/* ---- scores ---- */

static ProgramValue dot(Sequences *s, ProgramValue a, ProgramValue b, int along)
{
  return program_add_reduction(s->at, s->node, REDUCTION_DOT, 1u << along, NUMBER_F32,
                               (ProgramValue[]){a, b});
}

static ProgramValue capped(Sequences *s, ProgramValue scores)
{
  const GraphTensor *q = s->node->inputs[SEQUENCES_Q];
  double scale = graph_attribute(s->node, "scale")->number, cap = graph_attribute(s->node, "softcap")->number;
  int64_t depth = 1;
  symbolic_is_constant(q->shape[2], &depth);
  if (scale == 0) scale = 1 / sqrt((double)MAX(depth, 1));
  scores = number(s, ONNX_Mul, scores, program_immediate((float)scale, NUMBER_F32));
  if (cap == 0) return scores;
  ProgramValue most = program_immediate((float)cap, NUMBER_F32);
  return number(s, ONNX_Mul, number(s, ONNX_Tanh, number(s, ONNX_Div, scores, most), none), most);
}

/* Scores where key - row is at most (at least) what the last row sees of the last key, and `distance` more. */
static ProgramValue bounded(Sequences *s, ProgramValue scores, OperatorId op, int64_t distance)
{
  Arena *arena = s->at->program->arena;
  bool ending = !strcmp(graph_attribute(s->node, "diagonal")->text, "end") && s->kind != KEYS_OWN;
  const Symbolic *index = symbolic_sub(arena, symbolic_sub(arena, symbol(s, s->key), symbol(s, s->row)),
                                       symbolic_constant(arena, distance));
  ProgramValue limit = ending ? whole(s, ONNX_Sub, s->keys, s->rows) : program_immediate(0, NUMBER_S64);
  ProgramValue seen =
      map(s, op, NUMBER_BOOL, NUMBER_S64, program_add_index(s->at, s->node, index), limit, none);
  return map(s, ONNX_Where, NUMBER_F32, NUMBER_F32, seen, scores, program_immediate(-INFINITY, NUMBER_F32));
}

static ProgramValue masked(Sequences *s, ProgramValue scores)
{
  int64_t left = graph_attribute(s->node, "left_window_size")->integer,
          right = graph_attribute(s->node, "right_window_size")->integer;
  if (graph_attribute(s->node, "is_causal")->integer) right = right < 0 ? 0 : MIN(right, 0);
  if (left >= 0) scores = bounded(s, scores, ONNX_GreaterOrEqual, -left);
  return right >= 0 ? bounded(s, scores, ONNX_LessOrEqual, right) : scores;
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
  ProgramValue q = program_add_read(at, node, row_access(s, node->inputs[SEQUENCES_Q], s->depth));
  ProgramValue scores = dot(s, q, read_keys(s, SEQUENCES_K, s->depth), s->depth);
  scores = masked(s, capped(s, scores));
  ProgramValue peak = program_add_reduction(at, node, REDUCTION_MAX_SUM, 1u << s->key, NUMBER_F32, &scores);
  ProgramValue sum = peak, weights = program_add_weights(at, node, NUMBER_F32, scores, peak, true);
  sum.result = 1;
  write(s, 0, dot(s, weights, read_keys(s, SEQUENCES_V, s->width), s->key));
  if (node->n_outputs < 2 || !node->outputs[1]) return;
  write(s, 1, program_add_log_sum(at, node, NUMBER_F32, peak, sum));
}
