/* PackedMultiHeadAttention and PagedAttention of com.microsoft as VarlenAttention: rows of all sequences lie behind one another. New keys and
 * values of PagedAttention go into pages by AppendRows, each to the slot that is given, or that its place in its sequence has by the table. */
#include "generator/front/expand_microsoft.h"
#include <string.h>

typedef struct {
  Expansion *x;
  ExpandHeads of; /* [T, heads * size] */
} Packed;

static Packed open_packed(Expansion *x)
{
  return (Packed){x, {.q = expand_input(x, 0), .k = expand_input(x, 1), .v = expand_input(x, 2), .rank = 2}};
}

static const GraphAttribute *attribute(const Packed *at, const char *name)
{
  return graph_attribute(expand_written(at->x), name);
}

static const Symbolic *tokens(const Packed *at)
{
  return at->of.q->shape[0];
}

static void check_rank(Packed *at, unsigned input, unsigned rank, const char *shape)
{
  const GraphTensor *tensor = expand_input(at->x, input);
  if (tensor && !expand_failed(at->x) && tensor->rank != rank)
    expand_refuse(at->x, ERROR_INPUT, input, "rank", NULL, "`%s` is to be %s", tensor->name, shape);
}

/* [T, heads, size] */
static GraphTensor *by_heads(Packed *at, const char *name, GraphTensor *x, int64_t heads)
{
  return expand(at->x, ONNX_Reshape, name, x, expand_integers(at->x, "heads", (int64_t[]){0, heads, -1}, 3));
}

static void give_rows(Packed *at, GraphTensor *y)
{
  expand_give(at->x, 0,
              expand(at->x, ONNX_Reshape, "rows", y, expand_integers(at->x, "flat", (int64_t[]){0, -1}, 2)));
}

/* Results of sequences, [T, heads, size]; a scale that is not given is VarlenAttention's own. */
static GraphTensor *attend(Packed *at, ExpandNode node, unsigned n_attributes)
{
  double scale = attribute(at, "scale")->number;
  node.op = ONNX_VarlenAttention;
  node.part = "attention";
  if (scale != 0) node.attributes[n_attributes] = (ExpandAttribute){"scale", .number = scale};
  return expand_node(at->x, &node);
}

/* ---- PackedMultiHeadAttention ---- */

enum { QUERY, KEY, VALUE, BIAS, TOKENS, ENDS, SCORE_BIAS };

/* [T, heads, 3, size] holds all three. */
static void unpack_heads(Packed *at)
{
  static const int64_t ones[] = {1, 1, 1};
  const int64_t axis = 2;
  GraphTensor *parts[3] = {NULL, NULL, NULL};
  expand_split(at->x, at->of.q, 2, ones, 3, parts);
  GraphTensor **const operands[] = {&at->of.q, &at->of.k, &at->of.v};
  for (unsigned i = 0; i < 3; i++)
    *operands[i] =
        expand(at->x, ONNX_Reshape, "rows",
               expand(at->x, ONNX_Squeeze, "part", parts[i], expand_integers(at->x, "axis", &axis, 1)),
               expand_integers(at->x, "flat", (int64_t[]){0, -1}, 2));
}

void expand_packed_multi_head_attention(Expansion *x)
{
  Packed at = open_packed(x);
  at.of.heads = expand_heads_attribute(x, "num_heads");
  expand_refuse_input(x, SCORE_BIAS, "attention_bias");
  if (!expand_failed(x) && !at.of.k != !at.of.v)
    expand_refuse(x, ERROR_INPUT, QUERY, "missing-input", NULL, "keys go with values");
  check_rank(&at, QUERY, at.of.k ? 2 : 4, at.of.k ? "[tokens, heads * size]" : "[tokens, heads, 3, size]");
  check_rank(&at, KEY, 2, "[tokens, heads * size]");
  check_rank(&at, VALUE, 2, "[tokens, heads * size]");
  if (expand_failed(x)) return;
  if (!at.of.k) unpack_heads(&at);
  if (!expand_failed(x)) expand_heads_bias(x, &at.of, BIAS);
  give_rows(&at,
            attend(&at,
                   (ExpandNode){.n_inputs = 4,
                                .inputs = {by_heads(&at, "q", at.of.q, at.of.heads),
                                           by_heads(&at, "k", at.of.k, at.of.heads),
                                           by_heads(&at, "v", at.of.v, at.of.heads), expand_input(x, ENDS)}},
                   0));
}

/* ---- PagedAttention ---- */

enum {
  KEY_CACHE = 3,
  VALUE_CACHE,
  ROW_ENDS,
  PAST,
  TABLE,
  COSINE,
  SINE,
  SLOTS,
  SINK,
  Q_NORM,
  K_NORM,
  K_SCALE,
  V_SCALE
};

/* Of each token: its place in its sequence, and the slot of that by the table; of nobody's tokens 0 and -1. */
typedef struct {
  GraphTensor *place, *slot;
} Places;

static GraphTensor *whole(Packed *at, int64_t value)
{
  return expand_number(at->x, "number", NUMBER_S32, (double)value);
}

/* How many sequences have ended at each token: the number of its own. */
static GraphTensor *sequence_of(Packed *at)
{
  Expansion *x = at->x;
  const int64_t along = 1;
  const Symbolic *shape[] = {tokens(at), expand_input(x, PAST)->shape[0]};
  GraphTensor *ends = expand_slice(x, "ends", expand_input(x, ROW_ENDS), 0, 1, G_MAXINT64);
  GraphTensor *token = expand_index(x, "token", shape, 2, 0);
  GraphTensor *ended = expand_cast(x, "ended", expand(x, ONNX_LessOrEqual, "ended", ends, token), NUMBER_S32);
  return expand_node(x, &(ExpandNode){ONNX_ReduceSum,
                                      "sequence",
                                      2,
                                      {ended, expand_integers(x, "along", &along, 1)},
                                      .attributes = {{"keepdims", 0}}});
}

static Places places_of(Packed *at)
{
  Expansion *x = at->x;
  GraphTensor *table = expand_input(x, TABLE), *cache = expand_input(x, KEY_CACHE);
  const Symbolic *batches = expand_input(x, PAST)->shape[0], *columns = table->shape[1];
  const Symbolic *each = tokens(at);
  GraphTensor *sequence = sequence_of(at), *token = expand_index(x, "token", &each, 1, 0);
  GraphTensor *begin = expand(x, ONNX_Gather, "begin", expand_input(x, ROW_ENDS), sequence);
  GraphTensor *place = expand(x, ONNX_Add, "place", expand(x, ONNX_Sub, "row", token, begin),
                              expand(x, ONNX_Gather, "past", expand_input(x, PAST), sequence));
  GraphTensor *count = expand_cast(x, "count", expand_known(x, "count", &batches, 1, 0), NUMBER_S32);
  GraphTensor *somebody = expand(x, ONNX_Less, "somebody", sequence, count);
  Places places = {.place = expand_where(at->x, "place", somebody, place, whole(at, 0))};
  if (expand_input(x, SLOTS)) {
    places.slot = expand_input(x, SLOTS);
    return places;
  }
  GraphTensor *rows = expand_cast(x, "rows", expand_known(x, "rows", &cache->shape[1], 1, 0), NUMBER_S32),
              *width = expand_cast(x, "width", expand_known(x, "width", &columns, 1, 0), NUMBER_S32);
  GraphTensor *column = expand(x, ONNX_Div, "column", places.place, rows);
  GraphTensor *within =
      expand(x, ONNX_And, "within", somebody, expand(x, ONNX_Less, "within", column, width));
  GraphTensor *entry = expand(x, ONNX_Add, "entry", expand(x, ONNX_Mul, "row", sequence, width), column);
  const int64_t all = -1;
  GraphTensor *list = expand(x, ONNX_Reshape, "list", table, expand_integers(x, "all", &all, 1));
  GraphTensor *page =
      expand(x, ONNX_Gather, "page", list, expand_where(at->x, "entry", within, entry, whole(at, 0)));
  GraphTensor *pages = expand_cast(x, "pages", expand_known(x, "pages", &cache->shape[0], 1, 0), NUMBER_S32);
  /* of a page that there is not no multiple may come back into the cache, and of a place in front of the first no page before it */
  GraphTensor *there =
      expand(x, ONNX_And, "there", expand(x, ONNX_GreaterOrEqual, "there", page, whole(at, 0)),
             expand(x, ONNX_Less, "there", page, pages));
  within = expand(x, ONNX_And, "there", within, there);
  within = expand(x, ONNX_And, "there", within,
                  expand(x, ONNX_GreaterOrEqual, "there", places.place, whole(at, 0)));
  GraphTensor *behind =
      expand(x, ONNX_Sub, "behind", places.place, expand(x, ONNX_Mul, "first", column, rows));
  GraphTensor *slot = expand(x, ONNX_Add, "slot", expand(x, ONNX_Mul, "slot", page, rows), behind);
  places.slot = expand_where(at->x, "slot", within, slot, whole(at, -1));
  return places;
}

/* As one batch of rows: [1, T, ...] */
static GraphTensor *batched(Packed *at, const char *part, GraphTensor *rows)
{
  const int64_t axis = 0;
  return expand(at->x, ONNX_Unsqueeze, part, rows, expand_integers(at->x, "batch", &axis, 1));
}

static GraphTensor *turned(Packed *at, const char *part, GraphTensor *rows, int64_t heads,
                           GraphTensor *const *angles)
{
  const int64_t axis = 0;
  GraphTensor *y = expand_heads_turned(at->x, part, batched(at, part, rows), heads, angles);
  return expand(at->x, ONNX_Squeeze, part, y, expand_integers(at->x, "batch", &axis, 1));
}

static void turn_rows(Packed *at, GraphTensor *place)
{
  GraphTensor *angles[2];
  if (!expand_heads_turn(at->x, COSINE, SINE)) return;
  for (unsigned i = 0; i < 2; i++)
    angles[i] = batched(at, i ? "sines" : "cosines",
                        expand(at->x, ONNX_Gather, "angles", expand_input(at->x, COSINE + i), place));
  if (at->of.joint) {
    expand_heads_part(at->x, &at->of, turned(at, "qk", at->of.joint, at->of.heads + at->of.kv_heads, angles));
    return;
  }
  at->of.q = turned(at, "q", at->of.q, at->of.heads, angles);
  at->of.k = turned(at, "k", at->of.k, at->of.kv_heads, angles);
}

static void check_paged(Packed *at)
{
  Expansion *x = at->x;
  static const char *const names[] = {"key_cache", "value_cache", "cumulative_sequence_length",
                                      "past_seqlens", "block_table"};
  for (unsigned i = 0; i < G_N_ELEMENTS(names); i++)
    if (!expand_failed(x) && !expand_input(x, KEY_CACHE + i))
      expand_refuse(x, ERROR_INPUT, QUERY, "missing-input", NULL, "PagedAttention needs %s", names[i]);
  for (unsigned i = QUERY; i <= VALUE; i++)
    check_rank(at, i, 2, "[tokens, heads * size]");
  for (unsigned i = KEY_CACHE; i <= VALUE_CACHE; i++)
    check_rank(at, i, 4, "[pages, rows, heads, size]");
  check_rank(at, ROW_ENDS, 1, "[sequences + 1]");
  check_rank(at, PAST, 1, "[sequences]");
  check_rank(at, TABLE, 2, "[sequences, pages]");
  check_rank(at, SLOTS, 1, "[tokens]");
  expand_refuse_input(x, Q_NORM, "q_norm_weight");
  expand_refuse_input(x, K_NORM, "k_norm_weight");
}

/* Keys of each sequence with the new ones, s32. */
static GraphTensor *lengths_of(Packed *at)
{
  Expansion *x = at->x;
  GraphTensor *ends = expand_input(x, ROW_ENDS), *from = expand_slice(x, "side", ends, 0, 0, -1),
              *to = expand_slice(x, "side", ends, 0, 1, G_MAXINT64);
  return expand(x, ONNX_Add, "lengths", expand(x, ONNX_Sub, "rows", to, from), expand_input(x, PAST));
}

void expand_paged_attention(Expansion *x)
{
  Packed at = open_packed(x);
  at.of.heads = expand_heads_attribute(x, "num_heads");
  at.of.kv_heads = expand_heads_attribute(x, "kv_num_heads");
  check_paged(&at);
  expand_heads_unpack(x, &at.of);
  const ExpandCache keys = expand_cache(x, KEY_CACHE, "k_quant_type", K_SCALE, "k_scale"),
                    values = expand_cache(x, VALUE_CACHE, "v_quant_type", V_SCALE, "v_scale");
  if (expand_failed(x)) return;
  expand_share(x, 1, KEY_CACHE);
  expand_share(x, 2, VALUE_CACHE);
  Places places = places_of(&at);
  turn_rows(&at, places.place);
  GraphTensor *caches[2];
  GraphTensor *rows[] = {
      expand_cache_rows(x, &keys, "k", by_heads(&at, "k", at.of.k, at.of.kv_heads)),
      expand_cache_rows(x, &values, "v", by_heads(&at, "v", at.of.v, at.of.kv_heads)),
  };
  caches[0] = expand_node(x, &(ExpandNode){ONNX_AppendRows,
                                           "cache",
                                           5,
                                           {places.slot, keys.memory, rows[0], values.memory, rows[1]},
                                           .further = &caches[1],
                                           .n_further = 1});
  int64_t window = attribute(&at, "local_window_size")->integer;
  GraphTensor *sink = expand_input(x, SINK);
  GraphTensor *y =
      attend(&at,
             (ExpandNode){.n_inputs = sink ? 11 : 7,
                          .inputs = {by_heads(&at, "q", at.of.q, at.of.heads),
                                     expand_cache_widened(x, &keys, "keys", caches[0]),
                                     expand_cache_widened(x, &values, "values", caches[1]),
                                     expand_input(x, ROW_ENDS), NULL, lengths_of(&at), expand_input(x, TABLE),
                                     NULL, NULL, NULL, sink},
                          .attributes = {{"is_causal", 1},
                                         {"left_window_size", window > 0 ? window - 1 : -1},
                                         {"softcap", .number = attribute(&at, "softcap")->number}}},
             3);
  expand_give(x, 1, caches[0]);
  expand_give(x, 2, caches[1]);
  give_rows(&at, y);
}
