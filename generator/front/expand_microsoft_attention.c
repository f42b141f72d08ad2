/* MultiHeadAttention and GroupQueryAttention of com.microsoft as ONNX's Attention: operands that come packed are parted, biases
 * added, keys and queries turned by their positions, and masks put together to one. */
#include "generator/front/expand_microsoft.h"
#include <string.h>

typedef struct {
  Expansion *x;
  ExpandHeads of; /* of three dimensions [batch, rows, heads * size] */
  GraphTensor *mask, *lengths, *sink;
  GraphTensor *first; /* behind how many keys of a cache rows stand, of each batch; NULL: no such cache */
  GraphTensor *presents[2]; /* then the cache with new rows */
  bool split;               /* operands are [batch, heads, rows, size] */
} Operands;

static Operands open_operands(Expansion *x)
{
  return (Operands){x,
                    {.q = expand_input(x, 0), .k = expand_input(x, 1), .v = expand_input(x, 2), .rank = 3}};
}

static const GraphAttribute *attribute(const Operands *at, const char *name)
{
  return graph_attribute(expand_written(at->x), name);
}

static GraphTensor *flattened(Operands *at, const char *part, GraphTensor *x)
{
  return expand(at->x, ONNX_Reshape, part, x, expand_integers(at->x, "flat", (int64_t[]){0, 0, -1}, 3));
}

/* ---- caches that new rows go into ---- */

/* [batch, rows, heads * size] as [batch, heads, rows, size] */
static GraphTensor *by_heads(Operands *at, const char *name, GraphTensor *x, int64_t heads)
{
  x = expand(at->x, ONNX_Reshape, name, x, expand_integers(at->x, "split", (int64_t[]){0, 0, heads, -1}, 4));
  return expand_transpose(at->x, name, x, (int64_t[]){0, 2, 1, 3});
}

/* As many keys as there are with the rows, s64 [batch]; and behind how many the rows stand. Of a first prompt, which may be longer than
 * what is valid of it, that is none. */
static void place_rows(Operands *at, GraphTensor *total)
{
  if (expand_failed(at->x)) return;
  GraphTensor *rows = expand_known(at->x, "rows", &at->of.q->shape[1], 1, 0);
  at->lengths = total;
  at->first = expand(at->x, ONNX_Max, "past", expand(at->x, ONNX_Sub, "past", total, rows),
                     expand_number(at->x, "none", NUMBER_S64, 0));
}

static bool check_caches(Operands *at, const ExpandCache *caches, unsigned key)
{
  if (expand_failed(at->x)) return false;
  if (!caches[0].memory || !caches[1].memory)
    expand_refuse(at->x, ERROR_INPUT, key + !caches[0].memory, "missing-input", NULL,
                  "past_key goes with past_value");
  for (unsigned i = 0; i < 2 && !expand_failed(at->x); i++)
    if (caches[i].memory->rank != 4 || at->of.k->rank != 3 || at->of.v->rank != 3)
      expand_refuse(at->x, ERROR_INPUT, key + i, "rank",
                    "a cache [batch, heads, keys, size], keys and values [batch, rows, heads * size]",
                    "the cache `%s` or its new rows have another rank", caches[i].memory->name);
  return !expand_failed(at->x);
}

/* Rows behind what a sequence has: in the cache's own memory, or in a copy that has room for them. key: the first cache's input. */
static void extend_cache(Operands *at, const ExpandCache *caches, unsigned key)
{
  if (!check_caches(at, caches, key)) return;
  Expansion *x = at->x;
  const GraphNode *node = expand_written(x);
  GraphTensor *past[] = {caches[0].memory, caches[1].memory},
              *rows[] = {expand_cache_rows(x, &caches[0], "k", by_heads(at, "k", at->of.k, at->of.kv_heads)),
                         expand_cache_rows(x, &caches[1], "v", by_heads(at, "v", at->of.v, at->of.kv_heads))};
  const GraphTensor *memory[2] = {NULL, NULL};
  for (unsigned i = 0; i < 2; i++)
    if (expand_has_output(x, i + 1)) memory[i] = node->outputs[i + 1]->memory;
  if (memory[0] == past[0] && memory[1] == past[1]) {
    at->presents[0] = expand_node(x, &(ExpandNode){ONNX_AppendRows,
                                                   "cache",
                                                   5,
                                                   {at->first, past[0], rows[0], past[1], rows[1]},
                                                   .attributes = {{"places", .text = "begins"}},
                                                   .further = &at->presents[1],
                                                   .n_further = 1});
  }
  for (unsigned i = 0; i < 2 && !at->presents[i] && !expand_failed(x); i++) {
    GraphTensor *room = expand_node(
        x, &(ExpandNode){ONNX_Concat, "room", 2, {past[i], rows[i]}, .attributes = {{"axis", 2}}});
    at->presents[i] =
        expand_node(x, &(ExpandNode){ONNX_TensorScatter,
                                     "present",
                                     3,
                                     {room, rows[i], expand_cast(x, "first", at->first, NUMBER_S64)}});
  }
  at->of.q = by_heads(at, "q", at->of.q, at->of.heads);
  at->of.k = expand_cache_widened(x, &caches[0], "keys", at->presents[0]);
  at->of.v = expand_cache_widened(x, &caches[1], "values", at->presents[1]);
  at->split = true;
}

/* ---- MultiHeadAttention ---- */

enum { QUERY, KEY, VALUE, BIAS, PADDING, SCORE_BIAS, PAST_KEY, PAST_VALUE, PAST_LENGTH, INDIRECTION };

/* [batch, rows, heads, 1, size] as [batch, heads, rows, size] */
static GraphTensor *with_heads(Operands *at, const char *name, GraphTensor *x)
{
  int64_t axis = 3;
  x = expand(at->x, ONNX_Squeeze, name, x, expand_integers(at->x, "axes", &axis, 1));
  return expand_transpose(at->x, name, x, (int64_t[]){0, 2, 1, 3});
}

/* [batch, rows, heads, 3, size] holds all three, [batch, keys, heads, 2, size] keys and values. */
static void unpack(Operands *at)
{
  static const int64_t ones[] = {1, 1, 1};
  GraphTensor *parts[3] = {NULL, NULL, NULL};
  if (at->of.q->rank == 5) {
    expand_split(at->x, at->of.q, 3, ones, 3, parts);
    at->of.q = with_heads(at, "q", parts[0]);
    at->of.k = with_heads(at, "k", parts[1]);
    at->of.v = with_heads(at, "v", parts[2]);
    at->split = true;
  } else if (at->of.k && at->of.k->rank == 5) {
    expand_split(at->x, at->of.k, 3, ones, 2, parts);
    at->of.k = with_heads(at, "k", parts[0]);
    at->of.v = with_heads(at, "v", parts[1]);
  }
  if (!expand_failed(at->x) && (!at->of.k || !at->of.v))
    expand_refuse(at->x, ERROR_INPUT, QUERY, "missing-input",
                  "keys and values, or a packed query of five dimensions",
                  "MultiHeadAttention lacks keys and values");
}

/* Keys and values as a cache has them: queries too. */
static void split_heads(Operands *at)
{
  if (expand_failed(at->x) || at->split || at->of.k->rank != 4) return;
  at->split = true;
  at->of.q = expand(at->x, ONNX_Reshape, "q", at->of.q,
                    expand_integers(at->x, "split", (int64_t[]){0, 0, at->of.heads, -1}, 4));
  at->of.q = expand_transpose(at->x, "q", at->of.q, (int64_t[]){0, 2, 1, 3});
}

/* Lengths of each batch, or what is not 0 where a key is seen; others get mask_filter_value. */
static void read_padding(Operands *at)
{
  GraphTensor *padding = expand_input(at->x, PADDING);
  if (!padding || expand_failed(at->x)) return;
  if (padding->rank == 1 && symbolic_same(padding->shape[0], at->of.q->shape[0])) {
    if (attribute(at, "unidirectional")->integer || expand_input(at->x, PAST_KEY))
      expand_refuse_input(at->x, PADDING, "key_padding_mask");
    at->lengths = expand_cast(at->x, "lengths", padding, NUMBER_S64);
    return;
  }
  if (padding->rank != 2 && padding->rank != 3) {
    expand_refuse_input(at->x, PADDING, "key_padding_mask");
    return;
  }
  GraphTensor *axes = expand_integers(at->x, "axes", (int64_t[]){1, 2}, 4 - padding->rank);
  GraphTensor *seen =
      expand_cast(at->x, "seen", expand(at->x, ONNX_Unsqueeze, "seen", padding, axes), NUMBER_BOOL);
  GraphTensor *none = expand_number(at->x, "none", at->of.q->type, 0),
              *hidden =
                  expand_number(at->x, "hidden", at->of.q->type, attribute(at, "mask_filter_value")->number);
  at->mask = expand_where(at->x, "padding", seen, none, hidden);
}

static void give_attention(Operands *at, bool causal, int64_t window, double softcap)
{
  const GraphAttribute *scale = attribute(at, "scale");
  GraphTensor *further[2] = {NULL, NULL};
  bool presents = !at->first && (expand_wants(at->x, 1) || expand_wants(at->x, 2));
  bool cache = !at->first && expand_written(at->x)->op->id == MICROSOFT_MultiHeadAttention;
  ExpandNode node = {
      .op = at->sink || at->first ? ADLGEN_Attention : ONNX_Attention,
      .part = "attention",
      .n_inputs = at->first  ? 9
                  : at->sink ? 8
                             : 7,
      .inputs = {at->of.q, at->of.k, at->of.v, at->mask, cache ? expand_input(at->x, PAST_KEY) : NULL,
                 cache ? expand_input(at->x, PAST_VALUE) : NULL, at->lengths, at->sink, at->first},
      .attributes = {{"is_causal", causal}, {"left_window_size", window}, {"softcap", .number = softcap}},
      .further = further,
      .n_further = presents ? 2 : 0};
  unsigned n = 3;
  if (scale->number != 0) node.attributes[n++] = (ExpandAttribute){"scale", .number = scale->number};
  if (!at->split) {
    node.attributes[n++] = (ExpandAttribute){"q_num_heads", at->of.heads};
    node.attributes[n++] = (ExpandAttribute){"kv_num_heads", at->of.kv_heads};
  }
  GraphTensor *y = expand_node(at->x, &node);
  expand_give(at->x, 1, at->first ? at->presents[0] : further[0]);
  expand_give(at->x, 2, at->first ? at->presents[1] : further[1]);
  if (at->split) y = flattened(at, "y", expand_transpose(at->x, "rows", y, (int64_t[]){0, 2, 1, 3}));
  expand_give(at->x, 0, y);
}

void expand_multi_head_attention(Expansion *x)
{
  Operands at = open_operands(x);
  at.of.heads = at.of.kv_heads = expand_heads_attribute(x, "num_heads");
  expand_refuse_input(x, PAST_LENGTH, "past_sequence_length");
  expand_refuse_input(x, INDIRECTION, "cache_indirection");
  expand_refuse_output(x, 3, "qk");
  if (expand_failed(x)) return;
  unpack(&at);
  expand_heads_bias(x, &at.of, BIAS);
  split_heads(&at);
  read_padding(&at);
  GraphTensor *bias = expand_input(x, SCORE_BIAS);
  at.mask = at.mask ? expand_added(x, "mask", at.mask, bias) : bias;
  give_attention(&at, attribute(&at, "unidirectional")->integer != 0, -1, 0);
}

/* ---- GroupQueryAttention ---- */

enum {
  CACHE_KEY = 3,
  CACHE_VALUE,
  LENGTHS,
  TOTAL,
  COSINE,
  SINE,
  POSITIONS,
  GROUP_BIAS,
  SINK,
  K_SCALE,
  V_SCALE
};

static void read_group_query(Operands *at)
{
  Expansion *x = at->x;
  int64_t bits = attribute(at, "kv_cache_bit_width")->integer;
  at->of.heads = expand_heads_attribute(x, "num_heads");
  at->of.kv_heads = expand_heads_attribute(x, "kv_num_heads");
  expand_refuse_flag(x, "qk_output");
  if (bits != 0 && bits != CHAR_BIT)
    expand_refuse_attribute(x, ERROR_UNSUPPORTED, "kv_cache_bit_width", "8",
                            "caches of %d bits are not supported", (int)bits);
  expand_refuse_output(x, 3, "output_qk");
}

/* Places of rows that stand one behind the other, from the first one's on: [batch, rows]. */
static GraphTensor *places_of(Operands *at)
{
  Expansion *x = at->x;
  if (expand_failed(x)) return NULL;
  const Symbolic *const *shape = at->of.q->shape;
  GraphTensor *row = expand_cast(x, "row", expand_index(x, "row", shape, 2, 1), NUMBER_S64);
  if (!at->first) return row;
  const Symbolic *each[] = {shape[0], symbolic_constant(expand_arena(x), 1)};
  GraphTensor *first = expand_reshape(x, "first", at->first, each, 2);
  return expand(x, ONNX_Add, "place", row, expand_cast(x, "first", first, NUMBER_S64));
}

static void turn_positions(Operands *at)
{
  GraphTensor *angles[2];
  if (!expand_heads_turn(at->x, COSINE, SINE)) return;
  GraphTensor *positions = expand_input(at->x, POSITIONS), *places = positions ? positions : places_of(at);
  for (unsigned i = 0; i < 2; i++) /* once for queries and keys */
    angles[i] = expand(at->x, ONNX_Gather, "angles", expand_input(at->x, COSINE + i), places);
  if (at->of.joint) {
    GraphTensor *all = expand_heads_turned(at->x, "qk", at->of.joint, at->of.heads + at->of.kv_heads, angles);
    expand_heads_part(at->x, &at->of, all);
    return;
  }
  at->of.q = expand_heads_turned(at->x, "q", at->of.q, at->of.heads, angles);
  at->of.k = expand_heads_turned(at->x, "k", at->of.k, at->of.kv_heads, angles);
}

/* How many keys a sequence has with its new rows, less one, says `seqlens_k`. */
static void read_lengths(Operands *at)
{
  GraphTensor *lengths = expand_input(at->x, LENGTHS);
  if (expand_failed(at->x) || (!expand_input(at->x, CACHE_KEY) && !expand_input(at->x, CACHE_VALUE))) return;
  if (!lengths) {
    expand_refuse(at->x, ERROR_INPUT, CACHE_KEY, "missing-input", NULL,
                  "a cache of GroupQueryAttention needs seqlens_k");
    return;
  }
  lengths = expand_reshape(at->x, "lengths", lengths, &at->of.q->shape[0], 1);
  if (symbolic_equals(at->of.q->shape[1],
                      1)) { /* one row each, which sees the keys up to its own: as many as there are */
    at->first = lengths;
    return;
  }
  place_rows(at, expand(at->x, ONNX_Add, "total", expand_cast(at->x, "lengths", lengths, NUMBER_S64),
                        expand_number(at->x, "one", NUMBER_S64, 1)));
}

/* Without a cache of whole sequences: rows that are padding behind a sequence's end see what is in front of them. */
void expand_group_query_attention(Expansion *x)
{
  Operands at = open_operands(x);
  read_group_query(&at);
  expand_heads_unpack(x, &at.of);
  read_lengths(&at);
  turn_positions(&at);
  const ExpandCache caches[] = {expand_cache(x, CACHE_KEY, "k_quant_type", K_SCALE, "k_scale"),
                                expand_cache(x, CACHE_VALUE, "v_quant_type", V_SCALE, "v_scale")};
  if (at.first) extend_cache(&at, caches, CACHE_KEY);
  if (expand_failed(x)) return;
  at.mask = expand_input(x, GROUP_BIAS);
  at.sink = expand_input(x, SINK); /* smooth_softmax: e^0 beside the other scores */
  if (!at.sink && attribute(&at, "smooth_softmax")->integer > 0)
    at.sink = expand_number(x, "none", NUMBER_F32, 0);
  int64_t window = attribute(&at, "local_window_size")->integer;
  give_attention(&at, true, window > 0 ? window - 1 : -1, attribute(&at, "softcap")->number);
}
