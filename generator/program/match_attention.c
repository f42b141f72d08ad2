/* Attention: a contraction of queries and keys, steps over its results, a softmax along keys, and the contraction of that
 * with values. Its templates compute the softmax; scale and causality they do themselves, other steps they call. */
#include "generator/program/attention.h"
#include "generator/program/match_joined.h"
#include "generator/program/match_pages.h"
#include "generator/program/match_scores.h"
#include "generator/program/match_sequences.h"
#include <math.h>

typedef struct {
  Binding *binding;
  FusedAttention *bound;
  const Program *program;
  unsigned first, softmax, second; /* nodes: both contractions, and what softmax reduces to */
  unsigned q, k, v;                /* nodes that read the operands */
  int row, key, column, depth;     /* axes */
  int scale;                       /* node that reads a scale for each key of values; or PROGRAM_NONE */
  int key_scale; /* one that reads a scale for each key in pages like theirs; or PROGRAM_NONE */
  int tree;      /* node that reads which keys a row sees; or PROGRAM_NONE */
  int table;     /* node that reads which page keys and values lie in; or PROGRAM_NONE */
  ProgramValue limits[ATTENTION_MOST_BOUNDS]; /* of the bounds */
  BoundSequences sequences;
  BoundJoined joined;
  unsigned ending,
      beginning; /* masks by key - row that count from a sequence's ends, and those that do not */
} Attention;

static const ProgramValue absent = {.kind = VALUE_ABSENT};
static const ProgramValue nothing = {VALUE_IMMEDIATE, 0, 0, 0, NUMBER_S64};

static ProgramValue value_of(unsigned node, unsigned result)
{
  return (ProgramValue){VALUE_NODE, node, result, 0, NUMBER_F32};
}

/* ---- reductions ---- */

static bool find_reductions(Attention *at)
{
  const Program *program = at->program;
  unsigned dots = 0, softmaxes = 0, others = 0;
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    if (node->kind != NODE_REDUCE) continue;
    if (node->reduction == REDUCTION_DOT) {
      if (!dots++) at->first = i;
      at->second = i;
    } else if (node->reduction == REDUCTION_MAX_SUM) {
      softmaxes++;
      at->softmax = i;
    } else {
      others++;
    }
  }
  if (dots != 2 || softmaxes != 1) return false; /* something else */
  at->binding->near = true;
  if (others) return bind_refuse(at->binding, "there are more reductions than a softmax's");
  bool between = at->first < at->softmax && at->softmax < at->second;
  return between || bind_refuse(at->binding, "its softmax is not between its contractions");
}

static bool is_plain(const Attention *at, unsigned node)
{
  return bind_is_plain_access(at->binding, &at->program->nodes[node].access);
}

/* ---- pages ---- */

#define PAGE_OF_TILE                                                                                         \
  64 /* pages are whole parts of so many rows, or so many rows several times: as tiles of keys are */

/* Keys and values in pages, both by one table. */
static bool find_pages(Attention *at)
{
  const Program *program = at->program;
  const ProgramAccess *keys = &program->nodes[at->k].access, *values = &program->nodes[at->v].access;
  AttentionPages *pages = &at->bound->pages;
  bool sequences = at->bound->sequences.packed,
       paged = sequences ? bind_paged_axis(at->binding, at->k) >= 0 : !is_plain(at, at->k);
  at->table = PROGRAM_NONE;
  if (paged != (sequences ? bind_paged_axis(at->binding, at->v) >= 0 : !is_plain(at, at->v)))
    return bind_refuse(at->binding, "of keys and values one lies in pages");
  if (!paged) return true;
  at->table = bind_table_of(program, keys);
  if (bind_paged_axis(at->binding, at->k) != at->key || bind_paged_axis(at->binding, at->v) != at->key)
    return bind_refuse(at->binding, "keys or values are in pages along something else");
  if (at->table != bind_table_of(program, values) ||
      !symbolic_same(keys->tensor->shape[1], values->tensor->shape[1]) ||
      !symbolic_same(keys->tensor->shape[0], values->tensor->shape[0]))
    return bind_refuse(at->binding, "keys and values lie in pages of several tables or sizes");
  symbolic_is_constant(keys->tensor->shape[1], &pages->rows);
  bool fits = pages->rows > 0 && pages->rows <= ATTENTION_MOST_PAGE &&
              (pages->rows % PAGE_OF_TILE == 0 || PAGE_OF_TILE % pages->rows == 0);
  if (!fits)
    return bind_refuse(at->binding, "rows of a page do not divide 64, nor are they 64, 128, 192 or 256");
  const GraphTensor *table = program->nodes[at->table].access.tensor;
  pages->count = keys->tensor->shape[0];
  pages->strides[0] = keys->tensor->strides[0];
  pages->strides[1] = values->tensor->strides[0];
  pages->columns = table->shape[1];
  pages->step = table->strides[1];
  return true;
}

/* Does the node read one number for each key out of pages like those of keys and values, by their table? */
static bool is_paged_scale(const Attention *at, int read)
{
  const Program *program = at->program;
  if (read < 0 || at->table < 0 || bind_paged_axis(at->binding, (unsigned)read) != at->key) return false;
  const ProgramAccess *access = &program->nodes[read].access, *keys = &program->nodes[at->k].access;
  return bind_table_of(program, access) == at->table &&
         symbolic_same(access->tensor->shape[0], keys->tensor->shape[0]) &&
         symbolic_same(access->tensor->shape[1], keys->tensor->shape[1]);
}

/* Products of keys by such scales: the product's value, or that of the multiplication. */
static ProgramValue with_key_scale(Attention *at)
{
  const Program *program = at->program;
  const ProgramValue product = value_of(at->first, 0);
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *mul = &program->nodes[i];
    bool scales = mul->kind == NODE_MAP && mul->op == ONNX_Mul &&
                  bind_same_value(mul->operands[0], product) &&
                  is_paged_scale(at, bind_read_of(program, mul->operands[1]));
    if (!scales) continue;
    at->key_scale = (int)mul->operands[1].node;
    return value_of(i, 0);
  }
  return product;
}

/* Strides as if pages lay one behind the other, in the order of the table: batches stay batches, keys walk along the rows of a page. */
static void lay_pages_out(Attention *at, Space *space, unsigned key)
{
  const Program *program = at->program;
  const AttentionPages *pages = &at->bound->pages;
  if (!pages->rows) return;
  const unsigned reads[] = {at->k, at->v};
  const int scales[] = {at->key_scale, at->scale};
  for (unsigned i = 0; i < G_N_ELEMENTS(scales); i++)
    if (is_paged_scale(at, scales[i])) {
      const GraphTensor *tensor = program->nodes[scales[i]].access.tensor;
      space->strides[key][at->binding->places[scales[i]]] = tensor->strides[1];
      at->bound->pages.scales[i] = tensor->strides[0];
    }
  for (unsigned i = 0; i < G_N_ELEMENTS(reads); i++) {
    unsigned place = at->binding->places[reads[i]], table = at->binding->places[at->table];
    for (unsigned d = 0; d < key; d++)
      space->strides[d][place] =
          symbolic_add(program->arena, space->strides[d][place],
                       symbolic_mul(program->arena, space->strides[d][table], pages->strides[i]));
    space->strides[key][place] = program->nodes[reads[i]].access.tensor->strides[1];
  }
}

/* Dim 0 is what the table has rows for, dim 1 heads: *n dims of batches, two at least. */
static bool settle_pages(Attention *at, Space *space, unsigned *n)
{
  Arena *arena = at->program->arena;
  unsigned table = at->bound->pages.table, walked = 0;
  if (!at->bound->pages.rows || at->bound->sequences.packed) return true;
  for (unsigned d = 0; d < *n; d++)
    walked |= !symbolic_equals(space->strides[d][table], 0) ? 1u << d : 0;
  if (walked > 1) return bind_refuse(at->binding, "its table is not one for each batch");
  if (!walked) space_insert(arena, space, 0), ++*n;
  if (*n == 1) space_insert(arena, space, 1), ++*n;
  return true;
}

/* ---- sequences ---- */

/* Rows of all sequences lie behind one another, or there are none. */
static bool find_sequences(Attention *at)
{
  const Program *program = at->program;
  BoundSequences *sequences = &at->sequences;
  if (!bind_sequences(at->binding, at->row, at->key, sequences)) return false;
  if (sequences->batch == PROGRAM_NONE) return true;
  bool fits = bind_along_rows(at->binding, sequences, &program->nodes[at->q].access, at->row);
  const unsigned reads[] = {at->k, at->v};
  for (unsigned i = 0; i < G_N_ELEMENTS(reads); i++)
    fits = fits && (bind_paged_axis(at->binding, reads[i]) >= 0 ||
                    bind_along_keys(at->binding, sequences, &program->nodes[reads[i]].access, at->key));
  for (unsigned i = 0; i < program->n_nodes; i++)
    if (program->nodes[i].kind == NODE_WRITE)
      fits = fits && bind_along_rows(at->binding, sequences, &program->nodes[i].access, at->row);
  at->bound->sequences.packed = true;
  return fits || bind_refuse(at->binding, "rows or keys of sequences do not begin where their ends say");
}

/* Is the operand one whose place is not known by strides? */
static bool is_loaded(const Attention *at, unsigned node)
{
  bool keys = node == at->k || node == at->v;
  return at->table >= 0 ? keys
                        : keys && at->sequences.batch != PROGRAM_NONE && at->sequences.first != PROGRAM_NONE;
}

/* Keys behind a number that is loaded lie one behind the other: their strides are those of the tensor. */
static void lay_keys_out(Attention *at, Space *space, unsigned key)
{
  const Program *program = at->program;
  const unsigned reads[] = {at->k, at->v};
  if (at->table >= 0) return;
  for (unsigned i = 0; i < G_N_ELEMENTS(reads); i++) {
    const ProgramAccess *access = &program->nodes[reads[i]].access;
    for (unsigned d = 0; is_loaded(at, reads[i]) && d < access->tensor->rank; d++)
      if (symbolic_same(access->at[d].of_axes, program->axes[at->key].symbol))
        space->strides[key][at->binding->places[reads[i]]] = access->tensor->strides[d];
  }
}

/* Dim 0 is the sequences, dim 1 heads. */
static void settle_sequences(Attention *at, Space *space, unsigned *n)
{
  const Program *program = at->program;
  const BoundSequences *s = &at->sequences;
  AttentionSequences *bound = &at->bound->sequences;
  if (!bound->packed) return;
  if (*n == 1) space_insert(program->arena, space, 1), ++*n;
  bound->own = s->own;
  bound->packed_keys = s->first != PROGRAM_NONE && !s->own;
  bound->ends = at->binding->places[s->ends];
  bound->lengths = at->binding->places[s->lengths];
  bound->unread = s->key_begins != PROGRAM_NONE ? at->binding->places[s->key_begins] : G_MAXUINT;
  bound->of_ends = program->nodes[s->ends].access.tensor->strides[0];
  bound->of_lengths = program->nodes[s->lengths].access.tensor->strides[0];
}

/* The operand's read, or PROGRAM_NONE. */
static int operand_read(Attention *at, const ProgramValue *value)
{
  const Program *program = at->program;
  bool read = bind_read_of(program, *value) >= 0;
  bool lengths = false; /* then what is read where is asked once axes are known */
  for (unsigned i = 0; i < program->n_axes; i++)
    lengths |= program->axes[i].length != PROGRAM_NONE;
  read = read && (lengths || (bind_is_matrix(program, value->node) &&
                              (is_plain(at, value->node) || bind_paged_axis(at->binding, value->node) >= 0)));
  if (read) return (int)value->node;
  bind_refuse(at->binding, "an operand of its contractions is computed, or lies in no plain order");
  return PROGRAM_NONE;
}

/* May weights be rounded to the type? A program that was read as text has no nodes of a graph. */
static bool may_round_weights(const Attention *at, NumberType type)
{
  const GraphNode *softmax = at->program->nodes[at->softmax].source;
  const GraphAttribute *weights = softmax ? graph_attribute_find(softmax, "weights") : NULL;
  return weights && !strcmp(weights->text, number_name(type));
}

static bool find_operands(Attention *at)
{
  const Program *program = at->program;
  const ProgramNode *first = &program->nodes[at->first], *second = &program->nodes[at->second];
  int q = operand_read(at, &first->operands[0]), k = bind_joined(at->binding, first, &at->joined),
      v = bind_joined(at->binding, second, &at->joined);
  if (k < 0) k = operand_read(at, &first->operands[1]);
  if (v < 0) v = operand_read(at, &second->operands[1]);
  if (q < 0 || k < 0 || v < 0) return false;
  at->q = (unsigned)q, at->k = (unsigned)k, at->v = (unsigned)v;
  if (q == k || q == v || k == v)
    return bind_refuse(at->binding, "two of queries, keys and values are read as one");
  if (__builtin_popcount(first->axes) != 1 || __builtin_popcount(second->axes) != 1)
    return bind_refuse(at->binding, "it contracts along several axes");
  at->depth = __builtin_ctz(first->axes);
  at->key = __builtin_ctz(second->axes);
  at->row = bind_own_axis(program, at->q, at->k, first->axes);
  if (at->row < 0) return bind_refuse(at->binding, "its queries have no rows of their own");
  if (!find_sequences(at) || !find_pages(at)) return false;
  at->column = bind_own_axis(program, at->v, at->softmax, second->axes);
  uint32_t wanted = 1u << at->key;
  if (at->row < 0 || at->column < 0 || program->nodes[at->softmax].axes != wanted ||
      !(program->varies[at->k] & wanted) || !(program->varies[at->v] & wanted))
    return bind_refuse(at->binding, "its softmax is not along what its second contraction is along");
  NumberType type = program->nodes[at->q].type;
  NumberType stored = program->nodes[at->k].type;
  bool narrow = number_has_bytes(stored, 1) && stored != NUMBER_BOOL;
  bool same = (stored == type || narrow) && program->nodes[at->v].type == stored &&
              first->compute == NUMBER_F32 && second->compute == NUMBER_F32;
  if (!same)
    return bind_refuse(at->binding, "queries, keys and values are not of one type, added up in f32, nor keys "
                                    "and values of one of 8 bits");
  bool eight = stored == type && may_round_weights(at, type);
  if (number_bits(type) != 16 && !eight) return bind_refuse(at->binding, "its type is not one of 16 bits");
  if (eight && (at->table != PROGRAM_NONE || at->bound->sequences.packed))
    return bind_refuse(at->binding, "operands of 8 bits lie in pages, or behind one another");
  at->bound->type = type;
  at->bound->stored = stored;
  return true;
}

/* ---- softmax ---- */

/* The value without Casts that change nothing, or that round to the operands' type. */
static ProgramValue uncast(const Attention *at, ProgramValue value, bool narrow)
{
  bool eight = number_has_bytes(at->bound->type, 1); /* rounded to that, whatever they are cast to */
  while (value.kind == VALUE_NODE) {
    const ProgramNode *node = &at->program->nodes[value.node];
    bool cast = node->kind == NODE_MAP && node->op == ONNX_Cast && node->compute == NUMBER_F32 &&
                (node->type == NUMBER_F32 || (narrow && (node->type == at->bound->type || eight)));
    if (!cast) break;
    value = node->operands[0];
  }
  return value;
}

/* Weights without the scales of values of 8 bits, which vary from key to key. */
static ProgramValue unweighed(Attention *at, ProgramValue value)
{
  const Program *program = at->program;
  const ProgramNode *mul = value.kind == VALUE_NODE ? &program->nodes[value.node] : NULL;
  bool scaled = at->bound->stored != at->bound->type && mul && mul->kind == NODE_MAP && mul->op == ONNX_Mul &&
                bind_read_of(program, mul->operands[1]) >= 0 &&
                !(program->varies[mul->operands[1].node] >> at->row & 1);
  if (!scaled) return value;
  at->scale = (int)mul->operands[1].node;
  at->binding->inside[value.node] = true;
  return mul->operands[0];
}

/* e^(x - largest) / sum, of the scores that the reduction is of. */
static bool check_softmax(Attention *at)
{
  const Program *program = at->program;
  ProgramValue weights = uncast(at, program->nodes[at->second].operands[0], true);
  weights = uncast(at, scores_unguarded(at->program, at->softmax, unweighed(at, weights)), true);
  ProgramValue scores = program->nodes[at->softmax].operands[0];
  int below = bind_find_map(program, ONNX_Sub, scores, value_of(at->softmax, 0));
  int power =
      below < 0 ? PROGRAM_NONE : bind_find_map(program, ONNX_Exp, value_of((unsigned)below, 0), absent);
  int share = power < 0
                  ? PROGRAM_NONE
                  : bind_find_map(program, ONNX_Div, value_of((unsigned)power, 0), value_of(at->softmax, 1));
  bool same = share >= 0 && weights.kind == VALUE_NODE && weights.node == (unsigned)share;
  if (program->nodes[at->softmax].compute != NUMBER_F32) same = false;
  return same || bind_refuse(at->binding, "what its second contraction takes is more than a softmax");
}

/* The log-sum-exp of the same scores, if the program has it: largest + ln sum, of infinite ones the largest. */
static void find_sum(Attention *at)
{
  const Program *program = at->program;
  ProgramValue largest = value_of(at->softmax, 0);
  int logarithm = bind_find_map(program, ONNX_Log, value_of(at->softmax, 1), absent);
  int sum = logarithm < 0 ? PROGRAM_NONE
                          : bind_find_map(program, ONNX_Add, value_of((unsigned)logarithm, 0), largest);
  int infinite = bind_find_map(program, ONNX_IsInf, largest, absent);
  for (unsigned i = 0; sum >= 0 && infinite >= 0 && i < program->n_nodes; i++) {
    const ProgramValue value = value_of(i, 0), *operands = program->nodes[i].operands;
    if (!scores_are(at->program, value, ONNX_Where) || !bind_same_value(operands[1], largest) ||
        operands[0].kind != VALUE_NODE || operands[0].node != (unsigned)infinite ||
        operands[2].kind != VALUE_NODE || operands[2].node != (unsigned)sum)
      continue;
    at->binding->inside[logarithm] = at->binding->inside[sum] = at->binding->inside[infinite] = true;
    bind_anchor(at->binding, value, ATTENTION_SUM, 0, NUMBER_F32);
    return;
  }
}

/* ---- scores ---- */

/* Keeps a bound: an upper one of the distance that is known is the template's. */
static bool keep_bound(Attention *at, const AttentionBound *bound, ProgramValue limit)
{
  FusedAttention *bound_so_far = at->bound;
  bool ending = bound->from_row && bind_is_ending(at->binding, &at->sequences, limit);
  if (bound->from_row && bound_so_far->sequences.packed) {
    if ((ending ? at->beginning : at->ending) || (!ending && limit.kind != VALUE_IMMEDIATE)) return false;
    at->ending += ending;
    at->beginning += !ending;
    bound_so_far->sequences.ending = ending;
    if (ending) limit = nothing;
  }
  if (!bound_so_far->causal && bound->from_row && !bound->least && limit.kind == VALUE_IMMEDIATE) {
    bound_so_far->causal = true;
    bound_so_far->diagonal = bound->number;
    return true;
  }
  if (bound_so_far->n_bounds == ATTENTION_MOST_BOUNDS) return false;
  at->limits[bound_so_far->n_bounds] = limit;
  bound_so_far->bounds[bound_so_far->n_bounds++] = *bound;
  return true;
}

/* Takes scale and masks by place off the scores: what is left the templates' kernels compute step by step. */
static ProgramValue peel(Attention *at)
{
  FusedAttention *bound = at->bound;
  ProgramValue value = at->program->nodes[at->softmax].operands[0], inner, limit;
  AttentionBound mask = {0};
  const ScoreAxes axes = {at->program, at->row, at->key};
  double factor;
  bound->scale = 1;
  bound->diagonal = symbolic_constant(at->program->arena, 0);
  for (;;) {
    value = uncast(at, value, false);
    bool scaled = scores_are_scaled(at->program, value, &inner, &factor);
    if (scaled) bound->scale *= factor;
    bool tree = !scaled && at->tree == PROGRAM_NONE &&
                (at->tree = bind_tree(at->binding, &at->sequences, &axes, value, &inner)) != PROGRAM_NONE;
    if (!scaled && !tree &&
        !(scores_are_masked(&axes, value, &inner, &mask, &limit) && keep_bound(at, &mask, limit)))
      return value;
    value = inner;
  }
}

static void add_ancestors(const Program *program, const ProgramValue *value, bool *known)
{
  if (value->kind != VALUE_NODE) return;
  g_autofree bool *more = program_ancestors(program, value->node);
  for (unsigned i = 0; i < program->n_nodes; i++)
    known[i] |= more[i];
}

static bool bind_limits(Attention *at)
{
  for (unsigned i = 0; i < at->bound->n_bounds; i++)
    if (!bind_operand(at->binding, at->limits[i], false, &at->bound->bounds[i].limit)) return false;
  return true;
}

static int page_of_scale(const Attention *at, int scale)
{
  return is_paged_scale(at, scale) ? at->program->nodes[scale].access.at[0].node : PROGRAM_NONE;
}

/* Steps over scores stand between the first contraction and what is left of them; others the template computes. */
/* What computes which page keys and values are in, and where sequences begin and end: by node; g_free. */
static bool *places_of_operands(const Attention *at)
{
  const Program *program = at->program;
  const BoundSequences *s = &at->sequences;
  bool *places = g_new0(bool, program->n_nodes + 1), paged = at->table >= 0;
  const int loaded[] = {paged ? program->nodes[at->k].access.at[0].node : PROGRAM_NONE,
                        paged ? program->nodes[at->v].access.at[0].node : PROGRAM_NONE,
                        page_of_scale(at, at->key_scale),
                        page_of_scale(at, at->scale),
                        s->begin,
                        s->rows,
                        s->first,
                        s->keys};
  for (unsigned i = 0; i < G_N_ELEMENTS(loaded); i++)
    if (loaded[i] != PROGRAM_NONE)
      add_ancestors(program, &(ProgramValue){VALUE_NODE, (unsigned)loaded[i]}, places);
  if (paged) bind_places_joined(program, &at->joined, places);
  return places;
}

/* Keeps where scores are, for the steps that take it: a sum of multiples of row and key. */
static bool keep_index(Attention *at, const Symbolic *value, unsigned place)
{
  const Program *program = at->program;
  Arena *arena = program->arena;
  AttentionIndex *index = &at->bound->indices[place];
  const int axes[] = {at->row, at->key};
  const Symbolic **steps[] = {&index->row, &index->key};
  for (unsigned i = 0; i < G_N_ELEMENTS(axes); i++) {
    const ProgramAxis *axis = &program->axes[axes[i]];
    *steps[i] = program_step(program, program->arena, value, (unsigned)axes[i]);
    if (!*steps[i]) return bind_refuse(at->binding, "its scores depend on where they are");
    value = symbolic_sub(arena, value, symbolic_mul(arena, *steps[i], axis->symbol));
    bool moves =
        axes[i] == at->row && at->bound->sequences.packed; /* a lone row may stand at a sequence's last key */
    if (symbolic_equals(axis->extent, 1) && !moves)
      *steps[i] = symbolic_constant(arena, 0); /* and it is at 0 */
  }
  index->number = value;
  index->type = NUMBER_S32;
  if (program_axes_in(program, value)) return bind_refuse(at->binding, "its scores depend on where they are");
  return true;
}

/* key - row less how many keys more than rows a sequence has: the node that key - row is; PROGRAM_NONE: something else. */
static int ended_index(const Attention *at, unsigned node)
{
  const ProgramNode *sub = &at->program->nodes[node];
  bool ended = sub->kind == NODE_MAP && sub->op == ONNX_Sub && sub->operands[0].kind == VALUE_NODE &&
               at->program->nodes[sub->operands[0].node].kind == NODE_INDEX &&
               bind_is_ending(at->binding, &at->sequences, sub->operands[1]);
  return ended ? (int)sub->operands[0].node : PROGRAM_NONE;
}

/* Which of the program's indices the node is. */
static unsigned index_number(const Program *program, unsigned node)
{
  unsigned number = 0;
  for (unsigned i = 0; i < node; i++)
    number += program->nodes[i].kind == NODE_INDEX;
  return number;
}

/* Rows of such an index count as those of the template do where masks count from a sequence's ends. */
static bool take_ended(Attention *at, unsigned node, int of)
{
  if (at->beginning) return bind_refuse(at->binding, "its scores depend on where they are");
  at->bound->sequences.ending = true;
  at->ending++;
  at->binding->inside[node] = true;
  at->binding->anchors[node][0] =
      (FusedOperand){OPERAND_INDEX, index_number(at->program, (unsigned)of), 0, NUMBER_S32};
  return true;
}

/* What converts such an index to f32 is one that is counted in f32. */
static void keep_floats(Attention *at, const bool *own)
{
  const Program *program = at->program;
  FusedAttention *bound = at->bound;
  for (unsigned i = 0; i < at->second; i++) {
    const ProgramNode *node = &program->nodes[i];
    bool cast = own[i] && node->kind == NODE_MAP && node->op == ONNX_Cast && node->type == NUMBER_F32;
    if (!cast || node->operands[0].kind != VALUE_NODE) continue;
    int of = ended_index(at, node->operands[0].node);
    if (of < 0 && program->nodes[node->operands[0].node].kind == NODE_INDEX) of = (int)node->operands[0].node;
    if (of < 0) continue;
    unsigned index = index_number(program, (unsigned)of);
    bound->indices[bound->n_indices] = bound->indices[index];
    bound->indices[bound->n_indices].type = NUMBER_F32;
    at->binding->inside[i] = true;
    at->binding->anchors[i][0] = (FusedOperand){OPERAND_INDEX, bound->n_indices++, 0, NUMBER_F32};
  }
}

static bool mark_steps(Attention *at, ProgramValue scores)
{
  const Program *program = at->program;
  Binding *binding = at->binding;
  if (scores.kind != VALUE_NODE) return bind_refuse(at->binding, "its scores are a number");
  const ProgramValue product = with_key_scale(at);
  g_autofree bool *own = program_ancestors(program, scores.node);
  for (unsigned i = 0; i < at->bound->n_bounds; i++)
    add_ancestors(program, &at->limits[i], own);
  g_autofree bool *places = places_of_operands(at);
  unsigned n_indices = 0;
  at->bound->indices = arena_new_array(program->arena, AttentionIndex, 2 * program->n_nodes);
  for (unsigned i = 0; i < program->n_nodes; i++) {
    const ProgramNode *node = &program->nodes[i];
    unsigned index = n_indices;
    n_indices += node->kind == NODE_INDEX;
    if (places[i] && node->kind != NODE_WRITE) {
      if (node->kind != NODE_READ) binding->inside[i] = true;
      continue;
    }
    int of = own[i] ? ended_index(at, i) : PROGRAM_NONE;
    if (of >= 0 && !take_ended(at, i, of)) return false;
    if (of >= 0) continue;
    if (own[i] && bind_is_ending(at->binding, &at->sequences, value_of(i, 0))) {
      binding->inside[i] = true;
      continue;
    }
    bool between =
        i < at->second && (node->kind == NODE_MAP || node->kind == NODE_INDEX) && program->in_front[i];
    if (between && !own[i]) binding->inside[i] = true;
    if (node->kind == NODE_INDEX && own[i] && !keep_index(at, node->index, index)) return false;
    if (node->kind == NODE_REDUCE && i != at->first && i != at->second) binding->inside[i] = true;
    bool taken = node->kind != NODE_READ || i == at->q || i == at->k || i == at->v || (int)i == at->tree ||
                 is_plain(at, i) ||
                 ((i == (unsigned)at->scale || i == (unsigned)at->key_scale) && is_paged_scale(at, (int)i));
    if (!taken) return bind_refuse(at->binding, "a step reads at indices of its own");
    if (node->kind == NODE_WRITE && program->varies[i] >> at->key & 1)
      return bind_refuse(at->binding, "scores or weights are results too");
    if (node->kind == NODE_WRITE && !is_plain(at, i) &&
        !bind_writes_joined(binding, &at->joined, at->table, i))
      return bind_refuse(at->binding, "a result is stored at indices of its own");
  }
  at->bound->n_indices = n_indices;
  keep_floats(at, own);
  if (product.node != at->first) binding->inside[product.node] = true;
  bind_anchor(binding, product, ATTENTION_PRODUCT, 0, NUMBER_F32);
  bind_anchor(binding, value_of(at->second, 0), ATTENTION_RESULT, 0, NUMBER_F32);
  find_sum(at);
  return true;
}

/* ---- strides ---- */

static void insert_batches(Arena *arena, Space *space, unsigned n)
{
  for (; n < 2; n++)
    space_insert(arena, space, 0);
}

/* Along dim d an operand walks on into the next dim. */
static bool continues(Arena *arena, const Space *space, unsigned d, unsigned operand)
{
  const Symbolic *step = symbolic_mul(arena, space->strides[d + 1][operand], space->dims[d + 1]);
  return symbolic_same(space->strides[d][operand], step);
}

/* Heads of a group share keys, values and what belongs to these, as scales do; along dim d every other operand walks on into the
 * next one. */
static bool others_continue(Attention *at, const Space *space, unsigned d)
{
  FusedAttention *bound = at->bound;
  const unsigned n_inputs = at->binding->fused->n_inputs;
  for (unsigned i = 0; i < space->n_operands; i++) {
    if (i == bound->key_matrix.input || i == bound->values.input) continue;
    if (continues(at->program->arena, space, d, i)) continue;
    if (i >= MIN(n_inputs, ATTENTION_BITS) || !symbolic_equals(space->strides[d + 1][i], 0)) return false;
    bound->by_group |= (uint64_t)1 << i;
  }
  return true;
}

/* Is what the bounds load the same for all heads that share keys? */
static bool limits_are_shared(const Attention *at, const Space *space, unsigned last)
{
  for (unsigned i = 0; i < at->bound->n_bounds; i++) {
    const FusedOperand *limit = &at->bound->bounds[i].limit;
    if (limit->kind == OPERAND_IMMEDIATE) continue;
    if (limit->kind != OPERAND_INPUT || !symbolic_equals(space->strides[last][limit->index], 0)) return false;
  }
  return true;
}

/* Of one row: what bounds its distance to a key bounds the key. One that lets all keys be is none. */
static bool bound_keys(Attention *at)
{
  FusedAttention *bound = at->bound;
  Arena *arena = at->program->arena;
  const Symbolic *last = symbolic_sub(arena, at->program->axes[at->key].extent, symbolic_constant(arena, 1));
  bool hides_some = bound->causal && !symbolic_same(bound->diagonal, last);
  if (hides_some && bound->n_bounds == ATTENTION_MOST_BOUNDS) return false;
  if (hides_some)
    bound->bounds[bound->n_bounds++] =
        (AttentionBound){.number = bound->diagonal, .limit = {.kind = OPERAND_IMMEDIATE, .type = NUMBER_S64}};
  bound->causal = false;
  bound->diagonal = symbolic_constant(arena, 0);
  for (unsigned i = 0; i < bound->n_bounds; i++)
    bound->bounds[i].from_row = false;
  return true;
}

static void drop_dim(Space *space, unsigned at)
{
  for (unsigned d = at; d + 1 < space->rank; d++) {
    space->dims[d] = space->dims[d + 1];
    space->strides[d] = space->strides[d + 1];
  }
  space->rank--;
}

/* How many of n heads go into rows of a tile: all, or, of more than its rows, the most that divide them. */
static int64_t heads_of_tile(int64_t n)
{
  int64_t rows = MIN(n, ATTENTION_FEW_ROWS);
  while (n % rows)
    rows--;
  return 2 * rows > ATTENTION_FEW_ROWS ? rows : n;
}

/* One query a head: heads that share keys and values become the rows, so that these are read once for all of them, or for as many of them as
 * are a tile. *left: dims still say how many such there are. */
static bool take_heads_as_rows(Attention *at, Space *space, unsigned last, bool *left)
{
  Arena *arena = at->program->arena;
  int64_t heads = 0;
  if (!symbolic_equals(space->dims[last + 1], 1) || !limits_are_shared(at, space, last) || !bound_keys(at))
    return false;
  bool known = symbolic_is_constant(space->dims[last], &heads) && heads > 0;
  int64_t rows = known ? heads_of_tile(heads) : heads;
  *left = rows < heads;
  if (*left) {
    const Symbolic *tile = symbolic_constant(arena, rows);
    space->dims[last] = symbolic_constant(arena, heads / rows);
    space->dims[last + 1] = tile;
    for (unsigned i = 0; i < space->n_operands; i++) {
      space->strides[last + 1][i] = space->strides[last][i];
      space->strides[last][i] = symbolic_mul(arena, space->strides[last][i], tile);
    }
    return true;
  }
  drop_dim(space, last + 1);
  if (last == 1) space_insert(arena, space, 1);
  return true;
}

/* Batches become two dims, [batch, head]; heads that share keys and values are neighbours. */
static bool settle_heads(Attention *at, Space *space, unsigned n)
{
  Arena *arena = at->program->arena;
  FusedAttention *bound = at->bound;
  unsigned k = bound->key_matrix.input, v = bound->values.input;
  insert_batches(arena, space, n);
  unsigned last = MAX(n, 2) - 1;
  bool packed = bound->sequences.packed;
  bool shared = symbolic_equals(space->strides[last][k], 0) && symbolic_equals(space->strides[last][v], 0) &&
                !symbolic_equals(space->dims[last], 1);
  bound->group = symbolic_constant(arena, 1);
  bool left = false;
  if (shared && !packed && last <= 2 && take_heads_as_rows(at, space, last, &left) && !left) return true;
  if (shared) bound->group = space->dims[last];
  if (n > 2) {
    if (n != 3 || !shared || !others_continue(at, space, 1))
      return bind_refuse(at->binding, "its batches are no batches and heads");
    for (unsigned i = 0; i < space->n_operands; i++) {
      bool matrix = i == k || i == v || attention_is_by_group(bound, i);
      space->strides[1][i] = space->strides[matrix ? 1 : 2][i];
    }
    space->dims[1] = symbolic_mul(arena, space->dims[1], space->dims[2]);
    drop_dim(space, 2);
  }
  return true;
}

/* Strides along the batches, a dim, and the elements; these lie side by side. */
static bool take_operand(Attention *at, const Space *space, AttentionOperand *operand, unsigned read,
                         unsigned dim, unsigned elements)
{
  const Program *program = at->program;
  operand->strides[0] = space->strides[ATTENTION_BATCH][operand->input];
  operand->strides[1] = space->strides[ATTENTION_HEAD][operand->input];
  operand->strides[2] = space->strides[dim][operand->input];
  if (!bind_lies_beside(program, read, elements))
    return bind_refuse(at->binding, "elements of its queries, keys or values do not lie side by side");
  operand->strides[3] = symbolic_constant(program->arena, 1);
  return true;
}

static bool settle(Attention *at)
{
  const Program *program = at->program;
  FusedAttention *bound = at->bound;
  const Symbolic *const *dims;
  int axes[PROGRAM_MAX_AXES];
  unsigned n = 0;
  for (int i = 0; i < (int)program->n_axes; i++)
    if (i != at->row && i != at->key && i != at->column && i != at->depth) axes[n++] = i;
  unsigned batches = n;
  axes[n++] = at->row;
  axes[n++] = at->key;
  axes[n++] = at->column;
  Space space;
  if (!bind_space(at->binding, &space, axes, n)) return false;
  bound->queries.input = at->binding->places[at->q];
  bound->key_matrix.input = at->binding->places[at->k];
  bound->values.input = at->binding->places[at->v];
  bound->scaled = at->scale != PROGRAM_NONE;
  if (bound->scaled) bound->scale_input = at->binding->places[at->scale];
  if (at->key_scale != PROGRAM_NONE) bound->key_scale_input = at->binding->places[at->key_scale];
  if (bound->pages.rows) bound->pages.table = at->binding->places[at->table];
  if (at->tree != PROGRAM_NONE) bound->tree = (AttentionTree){true, at->binding->places[at->tree]};
  lay_pages_out(at, &space, batches + 1);
  lay_keys_out(at, &space, batches + 1);
  unsigned kept = bound->sequences.packed; /* sequences stay a dim of their own */
  unsigned left = kept + space_merge(program->arena, &space, kept, batches);
  settle_sequences(at, &space, &left);
  if (!settle_pages(at, &space, &left) || !settle_heads(at, &space, left) ||
      !take_operand(at, &space, &bound->queries, at->q, ATTENTION_ROW, (unsigned)at->depth) ||
      !take_operand(at, &space, &bound->key_matrix, at->k, ATTENTION_KEY, (unsigned)at->depth) ||
      !take_operand(at, &space, &bound->values, at->v, ATTENTION_KEY, (unsigned)at->column))
    return false;
  if (!bind_take_space(at->binding, &space)) return false;
  dims = at->binding->fused->dims;
  bound->batches = dims[ATTENTION_BATCH];
  bound->heads = dims[ATTENTION_HEAD];
  bound->rows = dims[ATTENTION_ROW];
  bound->keys = dims[ATTENTION_KEY];
  bound->width = dims[ATTENTION_COLUMN];
  bound->depth = program->axes[at->depth].extent;
  if (!bind_fits(at->binding, symbolic_mul(program->arena, bound->batches, bound->heads))) return false;
  bool known = symbolic_is_constant(bound->depth, NULL) && symbolic_is_constant(bound->width, NULL);
  if (!known) return bind_refuse(at->binding, "the size of its heads is not known");
  const unsigned elements[] = {(unsigned)at->depth, (unsigned)at->column};
  return bind_settle_joined(at->binding, &at->joined, at->table, elements, bound);
}

static bool bind(Binding *binding)
{
  const Program *program = binding->program;
  FusedAttention *bound = arena_new_object(program->arena, FusedAttention);
  Attention at = {.binding = binding,
                  .bound = bound,
                  .program = program,
                  .scale = PROGRAM_NONE,
                  .key_scale = PROGRAM_NONE,
                  .tree = PROGRAM_NONE};
  if (!find_reductions(&at) || !find_operands(&at) || !check_softmax(&at)) return false;
  ProgramValue scores = peel(&at);
  if (!mark_steps(&at, scores) || !bind_lists(binding) || !bind_limits(&at) ||
      !bind_operand(binding, scores, false, &bound->score))
    return false;
  binding->fused->anchor = program->nodes[at.second].source;
  binding->fused->binding = bound;
  return settle(&at);
}

FamilyMatch match_attention(const Program *program, FusedOperator *fused, const char **why)
{
  Binding binding = {.points = true, .groups = true, .scatters = true};
  bool ok = bind_open(&binding, program, fused) && bind(&binding);
  *why = binding.near ? binding.why : NULL;
  bind_close(&binding);
  return ok ? MATCH_TAKEN : binding.near ? MATCH_NEARLY : MATCH_OTHER;
}
