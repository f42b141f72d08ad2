/* MultiHeadAttention and GroupQueryAttention of com.microsoft as ONNX's Attention: operands that come packed are parted, biases
 * added, keys and queries turned by their positions, and masks put together to one. */
#include "generator/front/expand_microsoft.h"
#include <string.h>

typedef struct {
  Expansion *x;
  int64_t heads, kv_heads;
  GraphTensor *q, *k, *v, *mask, *lengths, *sink;
  GraphTensor *joint; /* queries with keys behind them, which are turned together; NULL: they are apart */
  GraphTensor *first; /* behind how many keys of a cache rows stand, of each batch; NULL: no such cache */
  GraphTensor *presents[2]; /* then the cache with new rows */
  bool split;               /* operands are [batch, heads, rows, size] */
} Operands;

static const GraphAttribute *attribute(const Operands *at, const char *name)
{
  return graph_attribute(expand_written(at->x), name);
}

static void check_heads(Operands *at, const char *name, int64_t heads)
{
  if (heads < 1)
    expand_refuse_attribute(at->x, ERROR_INPUT, name, NULL, "`%s` is a number of heads, not %d", name,
                            (int)heads);
}

static GraphTensor *flattened(Operands *at, const char *part, GraphTensor *x)
{
  return expand(at->x, ONNX_Reshape, part, x, expand_integers(at->x, "flat", (int64_t[]){0, 0, -1}, 3));
}

static void part(Operands *at, GraphTensor *x, int64_t axis, const int64_t *sizes, unsigned n,
                 GraphTensor **parts)
{
  parts[0] = expand_node(at->x, &(ExpandNode){ONNX_Split,
                                              "part",
                                              2,
                                              {x, expand_integers(at->x, "sizes", sizes, n)},
                                              .attributes = {{"axis", axis}},
                                              .further = parts + 1,
                                              .n_further = n - 1});
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
  GraphTensor *rows = expand_known(at->x, "rows", &at->q->shape[1], 1, 0);
  at->lengths = total;
  at->first = expand(at->x, ONNX_Max, "past", expand(at->x, ONNX_Sub, "past", total, rows),
                     expand_number(at->x, "none", NUMBER_S64, 0));
}

static bool check_cache(Operands *at, unsigned key, unsigned value)
{
  const GraphTensor *past[] = {expand_input(at->x, key), expand_input(at->x, value)};
  if (expand_failed(at->x)) return false;
  if (!past[0] || !past[1])
    expand_refuse(at->x, ERROR_INPUT, past[0] ? key : value, "missing-input", NULL,
                  "past_key goes with past_value");
  for (unsigned i = 0; i < 2 && !expand_failed(at->x); i++)
    if (past[i]->rank != 4 || at->k->rank != 3 || at->v->rank != 3)
      expand_refuse(at->x, ERROR_INPUT, i ? value : key, "rank",
                    "a cache [batch, heads, keys, size], keys and values [batch, rows, heads * size]",
                    "the cache `%s` or its new rows have another rank", past[i]->name);
    else if (past[i]->type != at->k->type)
      expand_refuse(at->x, ERROR_UNSUPPORTED, i ? value : key, "type", NULL,
                    "a cache of %s beside keys of %s is not supported", number_name(past[i]->type),
                    number_name(at->k->type));
  return !expand_failed(at->x);
}

/* Rows behind what a sequence has: in the cache's own memory, or in a copy that has room for them. */
static void extend_cache(Operands *at, unsigned key, unsigned value)
{
  if (!check_cache(at, key, value)) return;
  const GraphNode *node = expand_written(at->x);
  GraphTensor *past[] = {expand_input(at->x, key), expand_input(at->x, value)},
              *rows[] = {by_heads(at, "k", at->k, at->kv_heads), by_heads(at, "v", at->v, at->kv_heads)};
  const GraphTensor *memory[2] = {NULL, NULL};
  for (unsigned i = 0; i < 2; i++)
    if (expand_has_output(at->x, i + 1)) memory[i] = node->outputs[i + 1]->memory;
  if (memory[0] == past[0] && memory[1] == past[1]) {
    at->presents[0] = expand_node(at->x, &(ExpandNode){ONNX_AppendRows,
                                                       "cache",
                                                       5,
                                                       {at->first, past[0], rows[0], past[1], rows[1]},
                                                       .attributes = {{"places", .text = "begins"}},
                                                       .further = &at->presents[1],
                                                       .n_further = 1});
  }
  for (unsigned i = 0; i < 2 && !at->presents[i] && !expand_failed(at->x); i++) {
    GraphTensor *room = expand_node(
        at->x, &(ExpandNode){ONNX_Concat, "room", 2, {past[i], rows[i]}, .attributes = {{"axis", 2}}});
    at->presents[i] =
        expand_node(at->x, &(ExpandNode){ONNX_TensorScatter, "present", 3, {room, rows[i], at->first}});
  }
  at->q = by_heads(at, "q", at->q, at->heads);
  at->k = at->presents[0];
  at->v = at->presents[1];
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
  if (at->q->rank == 5) {
    part(at, at->q, 3, ones, 3, parts);
    at->q = with_heads(at, "q", parts[0]);
    at->k = with_heads(at, "k", parts[1]);
    at->v = with_heads(at, "v", parts[2]);
    at->split = true;
  } else if (at->k && at->k->rank == 5) {
    part(at, at->k, 3, ones, 2, parts);
    at->k = with_heads(at, "k", parts[0]);
    at->v = with_heads(at, "v", parts[1]);
  }
  if (!expand_failed(at->x) && (!at->k || !at->v))
    expand_refuse(at->x, ERROR_INPUT, QUERY, "missing-input",
                  "keys and values, or a packed query of five dimensions",
                  "MultiHeadAttention lacks keys and values");
}

static void add_bias(Operands *at)
{
  GraphTensor *bias = expand_input(at->x, BIAS), *parts[3] = {NULL, NULL, NULL};
  GraphTensor **const operands[] = {&at->q, &at->k, &at->v};
  int64_t sizes[3] = {0, 0, 0};
  if (!bias || expand_failed(at->x)) return;
  for (unsigned i = 0; i < 3; i++) {
    const GraphTensor *x = *operands[i];
    if (x->rank == 3 && symbolic_is_constant(x->shape[2], &sizes[i])) continue;
    expand_refuse(at->x, ERROR_UNSUPPORTED, BIAS, "shape", NULL,
                  "a bias of operands that are not [batch, rows, a known size] is not supported");
    return;
  }
  part(at, bias, 0, sizes, 3, parts);
  for (unsigned i = 0; i < 3; i++)
    *operands[i] = expand_added(at->x, "biased", *operands[i], parts[i]);
}

/* Keys and values as a cache has them: queries too. */
static void split_heads(Operands *at)
{
  if (expand_failed(at->x) || at->split || at->k->rank != 4) return;
  at->split = true;
  at->q = expand(at->x, ONNX_Reshape, "q", at->q,
                 expand_integers(at->x, "split", (int64_t[]){0, 0, at->heads, -1}, 4));
  at->q = expand_transpose(at->x, "q", at->q, (int64_t[]){0, 2, 1, 3});
}

/* Lengths of each batch, or what is not 0 where a key is seen; others get mask_filter_value. */
static void read_padding(Operands *at)
{
  GraphTensor *padding = expand_input(at->x, PADDING);
  if (!padding || expand_failed(at->x)) return;
  if (padding->rank == 1 && symbolic_same(padding->shape[0], at->q->shape[0])) {
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
  GraphTensor *none = expand_number(at->x, "none", at->q->type, 0),
              *hidden =
                  expand_number(at->x, "hidden", at->q->type, attribute(at, "mask_filter_value")->number);
  at->mask = expand_node(at->x, &(ExpandNode){ONNX_Where, "padding", 3, {seen, none, hidden}});
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
      .inputs = {at->q, at->k, at->v, at->mask, cache ? expand_input(at->x, PAST_KEY) : NULL,
                 cache ? expand_input(at->x, PAST_VALUE) : NULL, at->lengths, at->sink, at->first},
      .attributes = {{"is_causal", causal}, {"left_window_size", window}, {"softcap", .number = softcap}},
      .further = further,
      .n_further = presents ? 2 : 0};
  unsigned n = 3;
  if (scale->number != 0) node.attributes[n++] = (ExpandAttribute){"scale", .number = scale->number};
  if (!at->split) {
    node.attributes[n++] = (ExpandAttribute){"q_num_heads", at->heads};
    node.attributes[n++] = (ExpandAttribute){"kv_num_heads", at->kv_heads};
  }
  GraphTensor *y = expand_node(at->x, &node);
  expand_give(at->x, 1, at->first ? at->presents[0] : further[0]);
  expand_give(at->x, 2, at->first ? at->presents[1] : further[1]);
  if (at->split) y = flattened(at, "y", expand_transpose(at->x, "rows", y, (int64_t[]){0, 2, 1, 3}));
  expand_give(at->x, 0, y);
}

void expand_multi_head_attention(Expansion *x)
{
  Operands at = {.x = x, .q = expand_input(x, QUERY), .k = expand_input(x, KEY), .v = expand_input(x, VALUE)};
  at.heads = at.kv_heads = attribute(&at, "num_heads")->integer;
  check_heads(&at, "num_heads", at.heads);
  expand_refuse_input(x, PAST_LENGTH, "past_sequence_length");
  expand_refuse_input(x, INDIRECTION, "cache_indirection");
  expand_refuse_output(x, 3, "qk");
  if (expand_failed(x)) return;
  unpack(&at);
  add_bias(&at);
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

static void check_group_query(Operands *at)
{
  static const char *const types[] = {"k_quant_type", "v_quant_type"};
  static const char *const flags[] = {"qk_output", "kv_cache_bit_width"};
  Expansion *x = at->x;
  check_heads(at, "num_heads", at->heads);
  check_heads(at, "kv_num_heads", at->kv_heads);
  for (unsigned i = 0; i < G_N_ELEMENTS(flags); i++)
    expand_refuse_flag(x, flags[i]);
  for (unsigned i = 0; i < G_N_ELEMENTS(types); i++)
    if (strcmp(attribute(at, types[i])->text, "NONE") != 0)
      expand_refuse_attribute(x, ERROR_UNSUPPORTED, types[i], NULL,
                              "caches of quantised elements are not supported");
  expand_refuse_input(x, K_SCALE, "k_scale");
  expand_refuse_input(x, V_SCALE, "v_scale");
  expand_refuse_output(x, 3, "output_qk");
}

/* A query that holds keys and values behind it. */
static void unpack_group_query(Operands *at)
{
  GraphTensor *parts[3] = {NULL, NULL, NULL};
  int64_t width = 0, all = at->heads + 2 * at->kv_heads;
  if (expand_failed(at->x) || (at->k && at->v)) return;
  bool known = at->q->rank == 3 && symbolic_is_constant(at->q->shape[2], &width);
  if (!known || width % all || at->k || at->v) {
    expand_refuse(at->x, ERROR_INPUT, QUERY, "shape", "keys and values, or a query with both behind it",
                  "`%s` does not hold %d heads of queries, keys and values", at->q->name, (int)all);
    return;
  }
  int64_t d = width / all, q = at->heads * d, kv = at->kv_heads * d;
  if (attribute(at, "do_rotary")->integer) {
    part(at, at->q, 2, (int64_t[]){q + kv, kv}, 2, parts);
    at->joint = parts[0];
    at->v = parts[1];
    return;
  }
  part(at, at->q, 2, (int64_t[]){q, kv, kv}, 3, parts);
  at->q = parts[0];
  at->k = parts[1];
  at->v = parts[2];
}

/* Angles of each row by its place: [batch, rows, pairs]. By places within the table as a list, which their kernel computes. */
static GraphTensor *angles_by_place(Operands *at, GraphTensor *table, GraphTensor *place)
{
  const int64_t all = -1;
  return expand(at->x, ONNX_Gather, "angles",
                expand(at->x, ONNX_Reshape, "list", table, expand_integers(at->x, "all", &all, 1)), place);
}

/* Where the angles of rows lie that stand one behind the other, from the first one's place on. */
static GraphTensor *places_of(Operands *at, const GraphTensor *table)
{
  Expansion *x = at->x;
  if (expand_failed(x)) return NULL;
  const Symbolic *shape[] = {at->q->shape[0], at->q->shape[1], table->shape[1]};
  GraphTensor *row = expand_cast(x, "row", expand_index(x, "row", shape, 3, 1), NUMBER_S64),
              *pair = expand_index(x, "pair", shape, 3, 2);
  if (at->first) {
    const Symbolic *one = symbolic_constant(expand_arena(x), 1), *each[] = {shape[0], one, one};
    GraphTensor *first = expand(x, ONNX_Expand, "first", expand_reshape(x, "first", at->first, each, 3),
                                expand_known(x, "shape", shape, 3, 1));
    row = expand(x, ONNX_Add, "row", row, expand_cast(x, "first", first, NUMBER_S64));
  }
  row = expand(x, ONNX_Mul, "row", row, expand_known(x, "pairs", &shape[2], 1, 0));
  return expand(x, ONNX_Add, "place", row, expand_cast(x, "pair", pair, NUMBER_S64));
}

static GraphTensor *rotated(Operands *at, const char *name, GraphTensor *x, int64_t heads,
                            GraphTensor *const *angles)
{
  int64_t interleaved = attribute(at, "rotary_interleaved")->integer, pairs = 0, width = 0;
  if (expand_failed(at->x)) return NULL;
  bool known = symbolic_is_constant(angles[0]->shape[2], &pairs) &&
               symbolic_is_constant(x->shape[x->rank - 1], &width);
  int64_t dim = known && 2 * pairs != width / heads ? 2 * pairs : 0;
  return expand_node(at->x, &(ExpandNode){ONNX_RotaryEmbedding,
                                          name,
                                          3,
                                          {x, angles[0], angles[1]},
                                          .attributes = {{"interleaved", interleaved},
                                                         {"num_heads", heads},
                                                         {"rotary_embedding_dim", dim}}});
}

static void turn_positions(Operands *at)
{
  GraphTensor *angles[2];
  if (!attribute(at, "do_rotary")->integer || expand_failed(at->x)) return;
  if (!expand_input(at->x, COSINE) || !expand_input(at->x, SINE)) {
    expand_refuse(at->x, ERROR_INPUT, G_MAXUINT, "missing-input", NULL,
                  "`do_rotary` of GroupQueryAttention needs cos_cache and sin_cache");
    return;
  }
  GraphTensor *positions = expand_input(at->x, POSITIONS),
              *places = positions ? NULL : places_of(at, expand_input(at->x, COSINE));
  for (unsigned i = 0; i < 2; i++) { /* once for queries and keys */
    GraphTensor *table = expand_input(at->x, COSINE + i);
    angles[i] =
        places ? angles_by_place(at, table, places) : expand(at->x, ONNX_Gather, "angles", table, positions);
  }
  if (at->joint) {
    GraphTensor *parts[2] = {NULL, NULL},
                *all = rotated(at, "qk", at->joint, at->heads + at->kv_heads, angles);
    int64_t width = 0;
    if (!expand_failed(at->x)) symbolic_is_constant(all->shape[2], &width);
    width /= at->heads + at->kv_heads;
    part(at, all, 2, (int64_t[]){at->heads * width, at->kv_heads * width}, 2, parts);
    at->q = parts[0];
    at->k = parts[1];
    return;
  }
  at->q = rotated(at, "q", at->q, at->heads, angles);
  at->k = rotated(at, "k", at->k, at->kv_heads, angles);
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
  lengths = expand_reshape(at->x, "lengths", lengths, &at->q->shape[0], 1);
  if (symbolic_equals(at->q->shape[1],
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
  Operands at = {.x = x, .q = expand_input(x, QUERY), .k = expand_input(x, KEY), .v = expand_input(x, VALUE)};
  at.heads = attribute(&at, "num_heads")->integer;
  at.kv_heads = attribute(&at, "kv_num_heads")->integer;
  check_group_query(&at);
  unpack_group_query(&at);
  read_lengths(&at);
  turn_positions(&at);
  if (at.first) extend_cache(&at, CACHE_KEY, CACHE_VALUE);
  if (expand_failed(x)) return;
  at.mask = expand_input(x, GROUP_BIAS);
  at.sink = expand_input(x, SINK); /* smooth_softmax: e^0 beside the other scores */
  if (!at.sink && attribute(&at, "smooth_softmax")->integer > 0)
    at.sink = expand_number(x, "none", NUMBER_F32, 0);
  int64_t window = attribute(&at, "local_window_size")->integer;
  give_attention(&at, true, window > 0 ? window - 1 : -1, attribute(&at, "softcap")->number);
}
