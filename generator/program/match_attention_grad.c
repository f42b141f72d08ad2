/* Gradients of attention: of scores that are computed again come weights, P = e^(scores - sums); of these and the gradient of the result what
 * changes with scores, dS = P (dP - delta); and contractions of P or dS with an operand, along rows or along keys. Its templates compute
 * these; steps over scores, and behind dS, they call. */
#include "generator/program/attention_grad.h"
#include "generator/program/match_scores.h"

#define MOST_PARTS 65535

typedef struct {
  Binding *binding;
  FusedAttentionGrad *bound;
  const Program *program;
  int product, of_weights; /* contractions of operands alone: S, dP; PROGRAM_NONE */
  int by_depth, by_width;  /* of dS; of P */
  int weights;             /* P */
  int row, key, depth, width, of_depth, of_width, batch, head, group, part; /* axes */
  int q, k, v, grad, sums, delta, beside; /* nodes that read; beside: dS's operand */
  int grad_again;                         /* P's operand */
  int changes;                            /* dS, where it is read */
  ProgramValue scores;                    /* what P is of; once peeled what is left of it */
} Match;

static const ProgramValue absent = {.kind = VALUE_ABSENT};

static ProgramValue value_of(int node)
{
  return (ProgramValue){VALUE_NODE, (unsigned)node, 0, 0, NUMBER_F32};
}

static const ProgramNode *map_of(const Match *at, ProgramValue value, OperatorId op)
{
  return scores_are(at->program, value, op) ? &at->program->nodes[value.node] : NULL;
}

/* ---- nodes ---- */

/* Is it dS, times K? A contraction of what is read, or of that times e^0 or, of keys that are not seen, e^-infinity. */
static bool take_changes(Match *at)
{
  const Program *program = at->program;
  int dot = PROGRAM_NONE;
  for (unsigned i = 0; i < program->n_nodes; i++) {
    if (program->nodes[i].kind != NODE_REDUCE) continue;
    if (dot >= 0 || program->nodes[i].reduction != REDUCTION_DOT) return false;
    dot = (int)i;
  }
  if (dot < 0) return false;
  ProgramValue left = program->nodes[dot].operands[0];
  const ProgramNode *times = map_of(at, left, ONNX_Mul),
                    *power = times ? map_of(at, times->operands[1], ONNX_Exp) : NULL;
  at->changes = bind_read_of(program, power ? times->operands[0] : left);
  at->k = at->beside = bind_read_of(program, program->nodes[dot].operands[1]);
  at->by_depth = at->product = dot;
  at->scores = power ? power->operands[0] : absent;
  return at->changes >= 0 && at->k >= 0;
}

/* P = e^(scores - sums) that a value is, or PROGRAM_NONE. */
static int weights_of(Match *at, ProgramValue value)
{
  const ProgramNode *power = map_of(at, value, ONNX_Exp);
  const ProgramNode *below = power ? map_of(at, power->operands[0], ONNX_Sub) : NULL;
  if (!below) return PROGRAM_NONE;
  if (at->weights >= 0 && at->weights != (int)value.node) return PROGRAM_NONE; /* of other scores */
  at->scores = below->operands[0];
  at->sums = bind_read_of(at->program, below->operands[1]);
  if (at->sums >= 0) at->weights = (int)value.node;
  return at->sums >= 0 ? at->weights : PROGRAM_NONE;
}

/* dS is P (dP - delta): takes both apart. */
static bool take_of_scores(Match *at, ProgramValue value)
{
  const ProgramNode *times = map_of(at, value, ONNX_Mul);
  const ProgramNode *above = times ? map_of(at, times->operands[1], ONNX_Sub) : NULL;
  int weights = above ? weights_of(at, times->operands[0]) : PROGRAM_NONE;
  if (weights < 0 || above->operands[0].kind != VALUE_NODE) return false;
  at->of_weights = (int)above->operands[0].node;
  at->delta = bind_read_of(at->program, above->operands[1]);
  return at->delta >= 0;
}

/* A contraction of something computed with an operand: of P, or of dS, behind which a step may bend it. */
static bool take_contraction(Match *at, int node)
{
  const ProgramNode *dot = &at->program->nodes[node];
  ProgramValue left = dot->operands[0];
  int beside = bind_read_of(at->program, dot->operands[1]);
  if (beside < 0) return false;
  if (weights_of(at, left) >= 0) {
    at->by_width = node;
    at->grad_again = beside;
    return true;
  }
  const ProgramNode *bent = map_of(at, left, ONNX_Mul);
  bool straight = take_of_scores(at, left);
  ProgramValue inner = straight ? left : bent ? bent->operands[0] : absent;
  if (!straight && (!bent || !take_of_scores(at, inner))) return false;
  at->by_depth = node;
  at->beside = beside;
  bind_anchor(at->binding, inner, GRAD_OF_SCORES, 0, NUMBER_F32);
  return true;
}

static bool is_of_operands(const Match *at, const ProgramNode *dot)
{
  return bind_read_of(at->program, dot->operands[0]) >= 0 && bind_read_of(at->program, dot->operands[1]) >= 0;
}

static bool find_contractions(Match *at)
{
  const Program *program = at->program;
  unsigned plain = 0, others = 0;
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    if (node->kind != NODE_REDUCE) continue;
    if (node->reduction != REDUCTION_DOT) return false; /* something else */
    plain += is_of_operands(at, node);
    others += !is_of_operands(at, node);
  }
  if (!plain || plain > 2 || !others || others > 2) return false;
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    if (node->kind == NODE_REDUCE && !is_of_operands(at, node) && !take_contraction(at, (int)i)) return false;
  }
  at->binding->near = true;
  g_autofree bool *known = at->scores.kind == VALUE_NODE ? program_ancestors(program, at->scores.node) : NULL;
  for (unsigned i = 0; known && i < program->n_nodes; i++)
    if (program->nodes[i].kind == NODE_REDUCE && known[i]) at->product = (int)i;
  if (at->product < 0 || (at->by_width >= 0) + (at->by_depth >= 0) != (int)others)
    return bind_refuse(at->binding, "its weights are of no product, or two results are of one kind");
  bool both = at->by_depth < 0 || (at->of_weights >= 0 && at->of_weights != at->product &&
                                   program->nodes[at->of_weights].kind == NODE_REDUCE);
  return both || bind_refuse(at->binding, "what changes with its weights is no product");
}

/* ---- axes ---- */

static int last_axis(const Match *at, int read)
{
  const ProgramAccess *access = &at->program->nodes[read].access;
  uint32_t axes = program_axes_in(at->program, access->at[access->tensor->rank - 1].of_axes);
  return __builtin_popcount(axes) == 1 ? __builtin_ctz(axes) : PROGRAM_NONE;
}

static int contracted(const Match *at, int node)
{
  uint32_t axes = at->program->nodes[node].axes;
  return __builtin_popcount(axes) == 1 ? __builtin_ctz(axes) : PROGRAM_NONE;
}

static uint32_t summed_along(const Match *at)
{
  return at->program->nodes[at->by_depth >= 0 ? at->by_depth : at->by_width].axes;
}

/* Of axes that queries alone have, or keys alone, those that sums along the others are not along: parts have sums of their own. */
static uint32_t parts_of(const Match *at, uint32_t own)
{
  uint32_t along = own & summed_along(at);
  return along ? own & ~along : 0;
}

/* Of sums along keys: what keys are read by beside their axis. */
static uint32_t parts_of_keys(const Match *at)
{
  const ProgramAccess *access = &at->program->nodes[at->k].access;
  if (!(summed_along(at) >> at->key & 1)) return 0;
  for (unsigned d = 0; d < access->tensor->rank; d++) {
    uint32_t axes = program_axes_in(at->program, access->at[d].of_axes);
    if (axes >> at->key & 1) return axes & ~(1u << at->key);
  }
  return 0;
}

/* Batches and heads: what all operands walk along, and what keys do not; parts of what sums are along. */
static bool find_batches(Match *at, uint32_t varies)
{
  const Program *program = at->program;
  uint32_t all = varies & ~(1u << at->key), of_queries = all & ~program->varies[at->k],
           parts = parts_of(at, of_queries) | parts_of_keys(at),
           shared = of_queries & ~parts & ~(1u << at->row), own = all & program->varies[at->k] & ~parts;
  if (__builtin_popcount(parts) > 1) return bind_refuse(at->binding, "it has parts of parts");
  at->part = parts ? __builtin_ctz(parts) : PROGRAM_NONE;
  if (__builtin_popcount(shared) > 1 || __builtin_popcount(own) > 2)
    return bind_refuse(at->binding, "its batches are no batches and heads");
  at->group = shared ? __builtin_ctz(shared) : PROGRAM_NONE;
  at->batch = own ? __builtin_ctz(own) : PROGRAM_NONE;
  own &= own - 1;
  at->head = own ? __builtin_ctz(own) : PROGRAM_NONE;
  return true;
}

/* A contraction is along all rows of the heads that share keys, or along keys. */
static bool check_along(Match *at, int node)
{
  uint32_t rows = 1u << at->row | (at->group >= 0 ? 1u << at->group : 0), keys = 1u << at->key;
  if (node < 0) return true;
  uint32_t axes = at->program->nodes[node].axes;
  at->bound->of_rows = axes == keys;
  return axes == rows || (axes == keys && node == at->by_depth && at->by_width < 0) ||
         bind_refuse(at->binding, "its sums are along something else than rows or keys");
}

static bool find_axes(Match *at)
{
  const Program *program = at->program;
  const ProgramNode *product = &program->nodes[at->product];
  at->q = bind_read_of(at->program, product->operands[0]);
  at->k = bind_read_of(at->program, product->operands[1]);
  at->depth = contracted(at, at->product);
  if (at->depth < 0) return bind_refuse(at->binding, "it contracts along several axes");
  uint32_t of_queries = program->varies[at->q] & ~program->varies[at->k] & ~product->axes,
           of_keys = program->varies[at->k] & ~program->varies[at->q] & ~product->axes;
  at->key = bind_own_axis(program, (unsigned)at->k, (unsigned)at->q, product->axes | parts_of(at, of_keys));
  at->row =
      bind_own_axis(program, (unsigned)at->q, (unsigned)at->k, product->axes | parts_of(at, of_queries));
  if (at->row < 0 || at->key < 0)
    return bind_refuse(at->binding, "its queries or keys have no rows of their own");
  if (!find_batches(at, program->varies[at->product]) || !check_along(at, at->by_width) ||
      !check_along(at, at->by_depth))
    return false;
  at->of_depth = at->by_depth >= 0 ? last_axis(at, at->beside) : PROGRAM_NONE;
  at->of_width = at->by_width >= 0 ? last_axis(at, at->grad_again) : PROGRAM_NONE;
  at->grad = at->v = PROGRAM_NONE;
  if (at->by_depth < 0) {
    at->grad = at->grad_again;
    return at->of_width >= 0 || bind_refuse(at->binding, "its columns are no axis");
  }
  const ProgramNode *of_weights = &program->nodes[at->of_weights];
  at->grad = bind_read_of(at->program, of_weights->operands[0]);
  at->v = bind_read_of(at->program, of_weights->operands[1]);
  at->width = contracted(at, at->of_weights);
  bool fits = at->grad >= 0 && at->v >= 0 && at->width >= 0 && at->of_depth >= 0 &&
              (at->by_width < 0 || at->of_width >= 0);
  return fits || bind_refuse(at->binding, "it contracts along several axes");
}

static bool find_axes_of_changes(Match *at)
{
  const Program *program = at->program;
  at->key = contracted(at, at->product);
  at->row = bind_own_axis(program, (unsigned)at->changes, (unsigned)at->k, 0);
  at->of_depth = last_axis(at, at->k);
  if (at->row < 0 || at->key < 0 || at->of_depth < 0)
    return bind_refuse(at->binding, "it contracts along several axes");
  uint32_t columns = 1u << at->of_depth, own = program->varies[at->product] & ~columns;
  if (!(own >> at->row & 1)) return bind_refuse(at->binding, "its rows are no axis of their own");
  at->bound->of_rows = at->bound->of_changes = true;
  return find_batches(at, own);
}

/* Is `read` of the rows that `first` is of, whole ones, along a column axis of its own? */
static bool is_again(const Match *at, int read, int first, int column, int contracted_axis)
{
  const Program *program = at->program;
  if (read < 0) return true;
  const ProgramAccess *access = &program->nodes[read].access, *other = &program->nodes[first].access;
  bool same = access->tensor == other->tensor &&
              symbolic_same(program->axes[column].extent, program->axes[contracted_axis].extent);
  unsigned last = access->tensor->rank - 1;
  for (unsigned d = 0; same && d < last; d++)
    same = symbolic_same(access->at[d].of_axes, other->at[d].of_axes);
  return same && symbolic_same(access->at[last].of_axes, program->axes[column].symbol) &&
         symbolic_same(other->at[last].of_axes, program->axes[contracted_axis].symbol);
}

/* Elements lie where strides tell. */
static bool check_accesses(Match *at)
{
  const Program *program = at->program;
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    bool accesses = node->kind == NODE_READ || node->kind == NODE_WRITE;
    if (accesses && !bind_is_plain_access(at->binding, &node->access))
      return bind_refuse(at->binding, "it reads or stores at indices of its own");
  }
  return true;
}

static bool check_operands(Match *at)
{
  const Program *program = at->program;
  const int reads[] = {at->q, at->k, at->v, at->grad};
  NumberType type = program->nodes[at->q].type;
  for (unsigned i = 0; i < G_N_ELEMENTS(reads); i++)
    if (reads[i] >= 0 && program->nodes[reads[i]].type != type)
      return bind_refuse(at->binding, "its operands are not of one type");
  if (number_bits(type) != 16) return bind_refuse(at->binding, "its type is not one of 16 bits");
  int of_operand = at->bound->of_rows ? at->k : at->q;
  bool alone = at->by_depth < 0; /* then dO is read once */
  if (!is_again(at, at->beside, of_operand, at->of_depth, at->depth) ||
      (!alone && !is_again(at, at->grad_again, at->grad, at->of_width, at->width)))
    return bind_refuse(at->binding, "its results are of other operands than its scores");
  at->bound->type = type;
  return check_accesses(at);
}

static bool check_changes(Match *at)
{
  const Program *program = at->program;
  NumberType type = program->nodes[at->k].type;
  bool same = program->nodes[at->changes].type == type && number_bits(type) == 16;
  at->bound->type = type;
  return (same || bind_refuse(at->binding, "its operands are not of one type of 16 bits")) &&
         check_accesses(at);
}

/* ---- steps ---- */

/* The index of a row, or key, among those of all parts, as it is read along a dimension of `read`; NULL: its axis is. */
static const Symbolic *place_of(const Match *at, int read, int axis)
{
  const Program *program = at->program;
  const ProgramAccess *access = &program->nodes[read].access;
  for (unsigned d = 0; at->part >= 0 && d < access->tensor->rank; d++) {
    uint32_t axes = program_axes_in(program, access->at[d].of_axes);
    if (axes == (1u << axis | 1u << at->part)) return access->at[d].of_axes;
  }
  return NULL;
}

/* Takes scale and masks by place off the scores: what is left the templates call. */
static bool peel(Match *at)
{
  FusedAttentionGrad *bound = at->bound;
  const ScoreAxes axes = {at->program, at->row, at->key,
                          place_of(at, at->sums >= 0 ? at->sums : at->changes, at->row),
                          place_of(at, at->k, at->key)};
  ProgramValue inner, limit;
  AttentionBound mask = {0};
  double factor;
  bound->scale = 1;
  bound->diagonal = symbolic_constant(at->program->arena, 0);
  for (;; at->scores = inner) {
    if (scores_are_scaled(at->program, at->scores, &inner, &factor)) {
      bound->scale *= factor;
      continue;
    }
    if (!scores_are_masked(&axes, at->scores, &inner, &mask, &limit)) return true;
    if (limit.kind != VALUE_IMMEDIATE) return bind_refuse(at->binding, "how many keys are seen is loaded");
    mask.limit = (FusedOperand){OPERAND_IMMEDIATE, 0, 0, NUMBER_S64};
    if (!bound->causal && mask.from_row && !mask.least) {
      bound->causal = true;
      bound->diagonal = mask.number;
    } else if (bound->n_bounds < ATTENTION_MOST_BOUNDS) {
      bound->bounds[bound->n_bounds++] = mask;
    } else {
      return bind_refuse(at->binding, "it has too many masks");
    }
  }
}

/* What a value is computed from, but for what the templates give. */
static void add_own(const Match *at, ProgramValue value, bool *own)
{
  if (value.kind != VALUE_NODE || own[value.node] || at->binding->inside[value.node]) return;
  const ProgramNode *node = &at->program->nodes[value.node];
  own[value.node] = true;
  for (unsigned i = 0; i < node->n_operands; i++)
    add_own(at, node->operands[i], own);
}

/* Steps are what scores, and what changes with products, are computed from; all else the templates compute. */
static bool mark_steps(Match *at)
{
  const Program *program = at->program;
  Binding *binding = at->binding;
  g_autofree bool *own = g_new0(bool, program->n_nodes + 1);
  bind_anchor(binding, value_of(at->product), GRAD_PRODUCT, 0, NUMBER_F32);
  add_own(at, at->scores, own);
  if (at->by_depth >= 0) add_own(at, program->nodes[at->by_depth].operands[0], own);
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    bool step = node->kind == NODE_MAP || node->kind == NODE_INDEX || node->kind == NODE_REDUCE;
    if (step && !own[i]) binding->inside[i] = true;
    if (node->kind == NODE_INDEX && own[i])
      return bind_refuse(at->binding, "its scores depend on where they are");
  }
  return true;
}

static bool is_changes(const Match *at, ProgramValue value)
{
  ProgramValue changes = at->by_depth >= 0 ? at->program->nodes[at->by_depth].operands[0] : absent;
  return value.kind == VALUE_NODE && changes.kind == VALUE_NODE && value.node == changes.node;
}

/* Do parts of gradients alone read it? They read what keys that are seen left. */
static bool is_read_by_parts(const GraphTensor *tensor)
{
  for (unsigned i = 0; i < tensor->n_consumers; i++)
    if (tensor->consumers[i]->op->id != ONNX_AttentionGradPart) return false;
  return !tensor->is_output;
}

/* The results: sums times a number, stored as they are. */
static bool take_results(Match *at)
{
  const Program *program = at->program;
  FusedAttentionGrad *bound = at->bound;
  bound->factor = 1;
  bound->gives_changes = G_MAXUINT;
  for (unsigned i = 0, output = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    if (node->kind != NODE_WRITE) continue;
    ProgramValue value = node->operands[0], inner;
    unsigned place = output++;
    if (is_changes(at, value)) {
      if (bound->gives_changes != G_MAXUINT || at->bound->of_rows)
        return bind_refuse(at->binding, "it gives what changes with products beside sums of rows");
      if ((bound->causal || bound->n_bounds) && !is_read_by_parts(node->access.tensor))
        return bind_refuse(at->binding, "what changes with products is written where rows see keys alone");
      bound->gives_changes = place;
      continue;
    }
    double factor = 1;
    if (scores_are_scaled(program, value, &inner, &factor)) value = inner;
    bool depth = value.kind == VALUE_NODE && (int)value.node == at->by_depth,
         width = value.kind == VALUE_NODE && (int)value.node == at->by_width;
    if ((!depth && !width) || (width && factor != 1))
      return bind_refuse(at->binding, "its sums go through steps, or its weights are results");
    if (depth) bound->factor = factor;
    bind_anchor(at->binding, node->operands[0], depth ? GRAD_OF_DEPTH : GRAD_OF_WIDTH, 0, NUMBER_F32);
    *(depth ? &bound->gives_depth : &bound->gives_width) = true;
  }
  return true;
}

/* ---- strides ---- */

/* Elements of the operand lie side by side. */
static bool lie_beside(Match *at, int read, int axis)
{
  return read < 0 || bind_lies_beside(at->program, (unsigned)read, (unsigned)axis) ||
         bind_refuse(at->binding, "elements of its operands do not lie side by side");
}

static unsigned input_of(const Match *at, int read)
{
  return read < 0 ? G_MAXUINT : at->binding->places[read];
}

/* Do parts begin as many indices of the dim on as each has, wherever rows are read, and in what changes with products? */
static bool are_parts_of(const Match *at, unsigned dim)
{
  const FusedOperator *fused = at->binding->fused;
  const FusedAttentionGrad *bound = at->bound;
  Arena *arena = at->program->arena;
  bool all = true;
  for (unsigned i = 0; all && i < fused->n_inputs; i++)
    all = symbolic_same(fused->inputs[i].strides[GRAD_PART],
                        symbolic_mul(arena, fused->inputs[i].strides[dim], fused->dims[dim]));
  if (!all || bound->gives_changes == G_MAXUINT) return all;
  const FusedOutput *changes = &fused->outputs[bound->gives_changes];
  return symbolic_same(changes->strides[GRAD_PART],
                       symbolic_mul(arena, changes->strides[dim], fused->dims[dim]));
}

/* Results of parts of keys are those of heads behind one another: a head's parts come before the next head. */
static bool have_parts_beside(const Match *at)
{
  const FusedOperator *fused = at->binding->fused;
  Arena *arena = at->program->arena;
  bool all = true;
  for (unsigned i = 0; all && i < fused->n_outputs; i++)
    all = symbolic_equals(fused->dims[GRAD_GROUP], 1) ||
          symbolic_same(fused->outputs[i].strides[GRAD_GROUP],
                        symbolic_mul(arena, fused->outputs[i].strides[GRAD_PART], fused->dims[GRAD_PART]));
  return all;
}

/* Parts of one head each: its index is theirs. */
static void step_by_parts(Match *at)
{
  FusedOperator *fused = at->binding->fused;
  if (!symbolic_equals(fused->dims[GRAD_GROUP], 1)) return;
  for (unsigned i = 0; i < fused->n_inputs; i++)
    fused->inputs[i].strides[GRAD_GROUP] = fused->inputs[i].strides[GRAD_PART];
  if (at->bound->gives_changes == G_MAXUINT) return;
  FusedOutput *changes = &fused->outputs[at->bound->gives_changes];
  changes->strides[GRAD_GROUP] = changes->strides[GRAD_PART];
}

/* What is divided is that of all parts from here on. */
static bool join_parts(Match *at)
{
  FusedAttentionGrad *bound = at->bound;
  int64_t parts;
  bound->parts = 1;
  if (at->part < 0) return true;
  const Symbolic *extent = at->binding->fused->dims[GRAD_PART];
  if (!symbolic_is_constant(extent, &parts) || parts < 1 || parts > MOST_PARTS)
    return bind_refuse(at->binding, "the number of its parts is not known, or too large");
  bound->parts = (unsigned)parts;
  bound->divided = bound->of_rows ? GRAD_KEY : place_of(at, at->sums, at->row) ? GRAD_ROW : GRAD_GROUP;
  if (bound->divided == GRAD_GROUP) step_by_parts(at);
  if (!are_parts_of(at, bound->divided) || (bound->of_rows && !have_parts_beside(at)))
    return bind_refuse(at->binding, "its parts are no heads, rows or keys behind one another");
  const Symbolic **whole = bound->divided == GRAD_KEY   ? &bound->keys
                           : bound->divided == GRAD_ROW ? &bound->rows
                                                        : &bound->group;
  *whole = symbolic_mul(at->program->arena, *whole, extent);
  return true;
}

static bool settle(Match *at)
{
  const Program *program = at->program;
  FusedAttentionGrad *bound = at->bound;
  const int axes[GRAD_DIMS] = {at->batch, at->head,     at->group,    at->row,
                               at->key,   at->of_depth, at->of_width, at->part};
  Space space;
  if (!bind_space(at->binding, &space, axes, GRAD_DIMS)) return false;
  if (!bind_take_space(at->binding, &space)) return false;
  const Symbolic *const *dims = (const Symbolic *const *)at->binding->fused->dims;
  bound->queries = input_of(at, at->q), bound->key_matrix = input_of(at, at->k);
  bound->values = input_of(at, at->v), bound->grad = input_of(at, at->grad);
  bound->sums = input_of(at, at->sums), bound->delta = input_of(at, at->delta);
  bound->changes = input_of(at, at->changes);
  bound->batches = dims[GRAD_BATCH], bound->heads = dims[GRAD_HEAD], bound->group = dims[GRAD_GROUP];
  bound->rows = dims[GRAD_ROW], bound->keys = dims[GRAD_KEY];
  if (!join_parts(at)) return false;
  if (bound->of_changes) {
    bound->depth = bound->width = program->axes[at->of_depth].extent;
  } else {
    bound->depth = program->axes[at->depth].extent;
    bound->width = program->axes[at->v >= 0 ? at->width : at->of_width].extent;
  }
  const Symbolic *rows = symbolic_mul(program->arena, dims[GRAD_BATCH], dims[GRAD_PART]);
  for (unsigned d = GRAD_BATCH + 1; d <= GRAD_ROW; d++)
    rows = symbolic_mul(program->arena, rows, dims[d]);
  if (!bind_fits(at->binding, rows)) return false;
  if (!symbolic_is_constant(bound->depth, NULL) || !symbolic_is_constant(bound->width, NULL))
    return bind_refuse(at->binding, "the size of its heads is not known");
  if (bound->of_changes) return lie_beside(at, at->k, at->of_depth) && lie_beside(at, at->changes, at->row);
  return lie_beside(at, at->q, at->depth) && lie_beside(at, at->k, at->depth) &&
         lie_beside(at, at->v, at->width) && lie_beside(at, at->grad, at->v >= 0 ? at->width : at->of_width);
}

/* All that is computed the template computes; it masks as `keys` did. */
static bool bind_changes(Match *at)
{
  const Program *program = at->program;
  Binding *binding = at->binding;
  bool found = find_axes_of_changes(at) && check_changes(at) && peel(at);
  bool all = at->scores.kind == VALUE_ABSENT,
       plain = found && !at->bound->n_bounds &&
               (all || (at->bound->causal && at->scores.kind == VALUE_IMMEDIATE));
  if (found && !plain) return bind_refuse(binding, "what changes is masked otherwise than causally");
  for (unsigned i = 0; found && i < program->n_nodes; i++) {
    ProgramNodeKind kind = program->nodes[i].kind;
    if (kind == NODE_MAP || kind == NODE_INDEX || kind == NODE_REDUCE) binding->inside[i] = true;
  }
  return found && take_results(at) && bind_lists(binding);
}

static bool bind(Binding *binding)
{
  const Program *program = binding->program;
  FusedAttentionGrad *bound = arena_new_object(program->arena, FusedAttentionGrad);
  Match at = {binding, bound, program};
  int *const nodes[] = {&at.product, &at.of_weights, &at.by_depth,   &at.by_width, &at.weights, &at.sums,
                        &at.delta,   &at.beside,     &at.grad_again, &at.changes,  &at.q,       &at.k,
                        &at.v,       &at.grad,       &at.of_width,   &at.group,    &at.part};
  for (unsigned i = 0; i < G_N_ELEMENTS(nodes); i++)
    *nodes[i] = PROGRAM_NONE;
  if (take_changes(&at)) {
    binding->near = at.scores.kind != VALUE_ABSENT; /* else it may be any contraction */
    if (!bind_changes(&at)) return false;
    binding->fused->anchor = program->nodes[at.product].source;
    binding->fused->binding = bound;
    return settle(&at);
  }
  at.changes = at.by_depth = at.product = at.k = at.beside = PROGRAM_NONE;
  at.scores = absent;
  bool found = find_contractions(&at) && find_axes(&at) && check_operands(&at) && peel(&at) &&
               mark_steps(&at) && take_results(&at) && bind_lists(binding) &&
               bind_operand(binding, at.scores, false, &bound->score);
  if (found && at.by_depth >= 0)
    found = bind_operand(binding, program->nodes[at.by_depth].operands[0], false, &bound->slope);
  if (!found) return false;
  binding->fused->anchor = program->nodes[at.product].source;
  binding->fused->binding = bound;
  return settle(&at);
}

FamilyMatch match_attention_grad(const Program *program, FusedOperator *fused, const char **why)
{
  Binding binding = {.points = true};
  bool ok = bind_open(&binding, program, fused) && bind(&binding);
  *why = binding.near ? binding.why : NULL;
  bind_close(&binding);
  return ok ? MATCH_TAKEN : binding.near ? MATCH_NEARLY : MATCH_OTHER;
}
