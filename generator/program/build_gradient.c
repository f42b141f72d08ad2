/* AttentionGradPart: one part of attention's gradients, as one program.
 *
 *   S = reduce dot {d} Q[b, h*G + g, m, d], K[b, h, t, d]        P = Exp(scores - sums[b, h*G + g, m])
 *   dP = reduce dot {e} dO[.., m, e], V[b, h, t, e]              dS = P (dP - delta[.., m]), times the slope of a cap
 *   queries: dQ[.., m, c] = scale reduce dot {t} dS, K[b, h, t, c]
 *   keys:    dK[b, h, t, c] = scale reduce dot {g, m} dS, Q[.., m, c]
 *   values:  dV[b, h, t, f] = reduce dot {g, m} P, dO[.., m, f]
 * keys may give dS, too, [b, h*G + g, t, m]; queries of it are
 *            dQ[.., m, c] = scale reduce dot {t} dS[.., t, m] e^0 or, where m does not see t, e^-inf, K[b, h, t, c]
 */
#include "generator/front/gradient.h"
#include "generator/program/build_private.h"

typedef struct {
  ProgramBuilder *at;
  const GraphNode *node;
  int batch, head, group, row, key, depth, width; /* axes */
  int of_depth, of_width;                         /* columns of results */
} Gradient;

static const ProgramValue none = {.kind = VALUE_ABSENT};

static const Symbolic *symbol(const Gradient *s, int axis)
{
  return s->at->program->axes[axis].symbol;
}

/* ---- operands and results ---- */

/* The head of the group. */
static const Symbolic *own_head(const Gradient *s)
{
  Arena *arena = s->at->program->arena;
  if (s->group == PROGRAM_NONE) return symbol(s, s->head);
  return symbolic_add(arena, symbolic_mul(arena, symbol(s, s->head), s->at->program->axes[s->group].extent),
                      symbol(s, s->group));
}

/* Row m of queries or results, or key t; of a tensor without elements a value of each row. */
static ProgramAccess access_of(const Gradient *s, const GraphTensor *tensor, bool rows, int last)
{
  ProgramAccess access = {.tensor = tensor};
  access.at[0] = (ProgramIndex){symbol(s, s->batch), PROGRAM_NONE};
  access.at[1] = (ProgramIndex){rows ? own_head(s) : symbol(s, s->head), PROGRAM_NONE};
  access.at[2] = (ProgramIndex){symbol(s, rows ? s->row : s->key), PROGRAM_NONE};
  if (tensor->rank > 3) access.at[3] = (ProgramIndex){symbol(s, last), PROGRAM_NONE};
  return access;
}

static ProgramValue read(Gradient *s, unsigned input, int last)
{
  bool rows = input != GRADIENT_K && input != GRADIENT_V;
  return program_read_once(s->at, s->node, access_of(s, s->node->inputs[input], rows, last));
}

static ProgramValue read_mask(Gradient *s)
{
  const GraphTensor *mask = s->node->inputs[GRADIENT_MASK];
  const Symbolic *const at[] = {symbol(s, s->batch), own_head(s), symbol(s, s->row), symbol(s, s->key)};
  const Symbolic *zero = symbolic_constant(s->at->program->arena, 0);
  ProgramAccess access = {.tensor = mask};
  for (unsigned d = 0; d < mask->rank; d++) {
    bool one = symbolic_equals(mask->shape[d], 1);
    access.at[d] = (ProgramIndex){one ? zero : at[4 - mask->rank + d], PROGRAM_NONE};
  }
  return program_read_once(s->at, s->node, access);
}

static void write(Gradient *s, unsigned output, bool rows, int last, ProgramValue value)
{
  const GraphTensor *tensor = s->node->n_outputs > output ? s->node->outputs[output] : NULL;
  if (!tensor) return;
  program_write(s->at, s->node, access_of(s, tensor, rows, last), value);
}

/* What changes with products, keys by rows. */
static ProgramAccess access_changes(const Gradient *s, const GraphTensor *tensor)
{
  ProgramAccess access = access_of(s, tensor, true, s->row);
  access.at[2].of_axes = symbol(s, s->key);
  return access;
}

/* ---- scores ---- */

static ProgramValue number(Gradient *s, OperatorId op, ProgramValue a, ProgramValue b)
{
  return program_add_number(s->at, s->node, op, a, b);
}

static ProgramValue masked(Gradient *s, ProgramValue scores)
{
  bool given = s->node->n_inputs > GRADIENT_MASK && s->node->inputs[GRADIENT_MASK];
  if (!given) return scores;
  ProgramValue mask = read_mask(s);
  if (s->node->inputs[GRADIENT_MASK]->type == NUMBER_BOOL)
    return program_hidden_but(s->at, s->node, mask, scores);
  return number(s, ONNX_Add, scores, mask);
}

/* ---- the whole ---- */

static void add_axes(Gradient *s)
{
  ProgramBuilder *at = s->at;
  const GraphTensor *q = s->node->inputs[GRADIENT_Q], *k = s->node->inputs[GRADIENT_K],
                    *v = s->node->inputs[GRADIENT_V];
  GraphGradient of = graph_gradient(s->node);
  bool grouped = !symbolic_same(q->shape[1], k->shape[1]), given = graph_gradient_of_changes(s->node);
  s->batch = program_add_axis(at, 'b', -1, q->shape[0]);
  s->head = program_add_axis(at, 'h', -1, k->shape[1]);
  s->group = PROGRAM_NONE;
  if (grouped)
    s->group = program_add_axis(at, 'g', -1,
                                symbolic_binary(at->program->arena, SYMBOLIC_DIV, q->shape[1], k->shape[1]));
  s->row = program_add_axis(at, 'm', -1, q->shape[2]);
  s->key = program_add_axis(at, 't', -1, k->shape[2]);
  s->depth = given ? PROGRAM_NONE : program_add_axis(at, 'd', -1, q->shape[3]);
  s->width = given                      ? PROGRAM_NONE
             : of != GRADIENT_OF_VALUES ? program_add_axis(at, 'e', -1, v->shape[3])
                                        : PROGRAM_NONE;
  if (of != GRADIENT_OF_VALUES) s->of_depth = program_add_axis(at, 'c', -1, q->shape[3]);
  if (of == GRADIENT_OF_VALUES || s->node->n_outputs > 1)
    s->of_width = program_add_axis(at, 'f', -1, v->shape[3]);
}

/* dQ of what `keys` left. Where a row does not see a key nothing need be written. */
static void add_queries_of_changes(Gradient *s, double scale)
{
  const ProgramValue zero = program_immediate(0, NUMBER_F32);
  ProgramValue changes =
      program_read_once(s->at, s->node, access_changes(s, s->node->inputs[GRADIENT_CHANGES]));
  ProgramValue seen = program_windowed(s->at, s->node, zero, s->row, s->key, none, none);
  if (seen.kind == VALUE_NODE) changes = number(s, ONNX_Mul, changes, number(s, ONNX_Exp, seen, none));
  ProgramValue sum = program_add_dot(s->at, s->node, changes, read(s, GRADIENT_K, s->of_depth), 1u << s->key);
  write(s, 0, true, s->of_depth, number(s, ONNX_Mul, sum, program_immediate((float)scale, NUMBER_F32)));
}

void program_add_gradient(ProgramBuilder *at, const GraphNode *node)
{
  Gradient gradient = {.at = at, .node = node}, *s = &gradient;
  GraphGradient of = graph_gradient(node);
  double scale = program_score_scale(node, node->inputs[GRADIENT_Q]);
  add_axes(s);
  if (graph_gradient_of_changes(node)) {
    add_queries_of_changes(s, scale);
    return;
  }
  uint32_t rows = 1u << s->row | (s->group == PROGRAM_NONE ? 0 : 1u << s->group);
  ProgramValue product =
      program_add_dot(at, node, read(s, GRADIENT_Q, s->depth), read(s, GRADIENT_K, s->depth), 1u << s->depth);
  ProgramValue bent, scores = masked(s, program_scores(at, node, product, scale, &bent));
  scores = program_windowed(at, node, scores, s->row, s->key, none, none);
  ProgramValue weights =
      number(s, ONNX_Exp, number(s, ONNX_Sub, scores, read(s, GRADIENT_SUMS, PROGRAM_NONE)), none);
  if (of == GRADIENT_OF_VALUES || node->n_outputs > 1)
    write(s, of == GRADIENT_OF_VALUES ? 0 : 1, false, s->of_width,
          program_add_dot(at, node, weights, read(s, GRADIENT_GRAD, s->of_width), rows));
  if (of == GRADIENT_OF_VALUES) return;
  ProgramValue of_weights = program_add_dot(at, node, read(s, GRADIENT_GRAD, s->width),
                                            read(s, GRADIENT_V, s->width), 1u << s->width);
  ProgramValue above = number(s, ONNX_Sub, of_weights, read(s, GRADIENT_DELTA, PROGRAM_NONE)),
               of_scores = number(s, ONNX_Mul, weights, above);
  if (bent.kind != VALUE_ABSENT)
    of_scores =
        number(s, ONNX_Mul, of_scores,
               number(s, ONNX_Sub, program_immediate(1, NUMBER_F32), number(s, ONNX_Mul, bent, bent)));
  bool queries = of == GRADIENT_OF_QUERIES;
  if (node->n_outputs > 2 && node->outputs[2])
    program_write(at, node, access_changes(s, node->outputs[2]), of_scores);
  ProgramValue sum =
      program_add_dot(at, node, of_scores, read(s, queries ? GRADIENT_K : GRADIENT_Q, s->of_depth),
                      queries ? 1u << s->key : rows);
  write(s, 0, queries, s->of_depth, number(s, ONNX_Mul, sum, program_immediate((float)scale, NUMBER_F32)));
}
