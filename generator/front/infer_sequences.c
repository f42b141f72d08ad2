/* VarlenAttention: attention of sequences whose rows lie behind one another. */
#include "generator/front/infer_private.h"
#include "generator/front/sequences.h"

static bool refuse(Inference *at, unsigned input, const char *id, const char *hint, const char *what)
{
  const GraphTensor *tensor = at->node->inputs[input];
  g_autofree char *text = graph_shape_text(tensor->shape, tensor->rank);
  return infer_refuse(at, ERROR_INPUT, &at->node->input_marks[input], id, hint,
                      "`%s` of VarlenAttention is %s %s; %s", tensor->name, number_name(tensor->type), text,
                      what);
}

static const GraphTensor *given(const GraphNode *node, unsigned input)
{
  return node->n_inputs > input ? node->inputs[input] : NULL;
}

/* Scales are floats, and go with keys and values of 8 bits. */
static bool check_scale_type(Inference *at, unsigned input)
{
  const GraphNode *node = at->node;
  NumberType have = node->inputs[input]->type;
  if (have != NUMBER_F32 && have != node->inputs[SEQUENCES_Q]->type)
    return refuse(at, input, "type", "insert a Cast", "scales are f32, or of the queries' type");
  return graph_is_narrow(node->inputs[SEQUENCES_K]->type) ||
         refuse(at, input, "type", "multiply in front, or quantise keys and values",
                "scales go with keys and values of 8 bits");
}

bool infer_sequences_type(Inference *at, NumberType *type)
{
  const GraphNode *node = at->node;
  *type = node->inputs[SEQUENCES_Q]->type;
  if (!(node->op->types >> *type & 1))
    return refuse(at, SEQUENCES_Q, "type", "f16 or bf16", "it is of 16-bit floats");
  for (unsigned i = SEQUENCES_K; i < node->n_inputs; i++) {
    if (!node->inputs[i]) continue;
    bool matrix = i <= SEQUENCES_V, table = i == SEQUENCES_TABLE;
    NumberType have = node->inputs[i]->type;
    if (matrix && have != *type && !(graph_is_narrow(have) && have == node->inputs[SEQUENCES_K]->type))
      return refuse(at, i, "type", "insert a Cast",
                    "queries, keys and values are of one type, or keys and values of one of 8 bits");
    bool of_heads = i == SEQUENCES_SLOPES || i == SEQUENCES_SINK;
    if (of_heads && number_class(have) != NUMBER_FLOAT)
      return refuse(at, i, "type", "insert a Cast",
                    i == SEQUENCES_SINK ? "sinks are floats" : "slopes are floats");
    if (i >= SEQUENCES_K_SCALE && i < SEQUENCES_SLOPES && !check_scale_type(at, i)) return false;
    if (matrix || (i >= SEQUENCES_K_SCALE && i != SEQUENCES_TREE)) continue;
    if (have != NUMBER_S32 && !(table && have == NUMBER_S64))
      return refuse(at, i, "type", "insert a Cast", "it is s32");
  }
  return true;
}

/* Dimension d of an input is as long as that of another one, and `more`. */
static bool check_same(Inference *at, unsigned input, unsigned d, const Symbolic *want, const char *what)
{
  if (infer_same(at, at->node->inputs[input]->shape[d], want)) return true;
  g_autofree char *text = symbolic_text(want);
  g_autofree char *message = g_strdup_printf("its dimension %u, %s, is to be %s", d, what, text);
  return refuse(at, input, "shape", NULL, message);
}

static bool check_rank(Inference *at, unsigned input, unsigned rank, const char *shape)
{
  const GraphTensor *tensor = given(at->node, input);
  if (!tensor || tensor->rank == rank) return true;
  g_autofree char *message = g_strdup_printf("it is to be %s", shape);
  return refuse(at, input, "rank", NULL, message);
}

static const Symbolic *one_less(Inference *at, const Symbolic *extent)
{
  return symbolic_sub(at->graph->arena, extent, symbolic_constant(at->graph->arena, 1));
}

#define PAGE_OF_TILE                                                                                         \
  64 /* tiles of keys are whole pages, or pages whole tiles: of so many, or of so many times some */
#define MOST_PAGE 256

/* Kernels know how many rows a page has, and take those of some numbers. */
static bool check_page(Inference *at)
{
  const GraphTensor *k = at->node->inputs[SEQUENCES_K];
  int64_t rows = 0;
  bool known = symbolic_is_constant(k->shape[1], &rows);
  if (known && rows > 0 && rows <= MOST_PAGE && (rows % PAGE_OF_TILE == 0 || PAGE_OF_TILE % rows == 0))
    return true;
  g_autofree char *text = symbolic_text(k->shape[1]);
  return infer_refuse(at, ERROR_UNSUPPORTED, &at->node->input_marks[SEQUENCES_K], "page",
                      "1, 2, 4, 8, 16, 32, 64, 128, 192 or 256, a number",
                      "pages of `%s` have %s rows, which is not supported", k->name, text);
}

/* Where keys and values lie. */
static bool check_keys(Inference *at, const Symbolic *sequences)
{
  const GraphNode *node = at->node;
  const GraphTensor *k = node->inputs[SEQUENCES_K], *v = node->inputs[SEQUENCES_V];
  const GraphKeys kind = graph_keys(node);
  bool cache = kind == KEYS_CACHE || kind == KEYS_PAGES;
  const char *const shapes[] = {[KEYS_OWN] = "[T, H, d]",
                                [KEYS_PACKED] = "[Tk, H, d]",
                                [KEYS_CACHE] = "[B, C, H, d]",
                                [KEYS_PAGES] = "[pages, rows, H, d]"};
  for (unsigned i = SEQUENCES_K; i <= SEQUENCES_V; i++)
    if (!check_rank(at, i, cache ? 4 : 3, shapes[kind])) return false;
  if (cache && given(node, SEQUENCES_KEY_ENDS))
    return refuse(at, SEQUENCES_KEY_ENDS, "shape", NULL,
                  "keys have ends of their own, or a length for each sequence, not both");
  if (given(node, SEQUENCES_TABLE) && !given(node, SEQUENCES_LENGTHS))
    return refuse(at, SEQUENCES_TABLE, "missing-input", NULL,
                  "keys in pages need `lengths`, input 5: how many keys a sequence has");
  if (!check_rank(at, SEQUENCES_KEY_ENDS, 1, "[B + 1]") || !check_rank(at, SEQUENCES_LENGTHS, 1, "[B]") ||
      !check_rank(at, SEQUENCES_TABLE, 2, "[B, P]"))
    return false;
  if (kind == KEYS_PACKED && !check_same(at, SEQUENCES_KEY_ENDS, 0, node->inputs[SEQUENCES_ENDS]->shape[0],
                                         "sequences and one more"))
    return false;
  if (cache && !check_same(at, SEQUENCES_LENGTHS, 0, sequences, "sequences")) return false;
  if (kind == KEYS_PAGES && (!check_same(at, SEQUENCES_TABLE, 0, sequences, "sequences") || !check_page(at)))
    return false;
  if (kind == KEYS_CACHE && !check_same(at, SEQUENCES_K, 0, sequences, "sequences")) return false;
  if (kind == KEYS_OWN && !check_same(at, SEQUENCES_K, 0, node->inputs[SEQUENCES_Q]->shape[0], "rows"))
    return false;
  for (unsigned d = 0; d + 1 < k->rank; d++)
    if (!check_same(at, SEQUENCES_V, d, k->shape[d], "that of the keys")) return false;
  return v->rank == k->rank;
}

/* The scale broadcasts to keys or values, and varies only along what kernels follow. */
static bool check_scale(Inference *at, unsigned input, const GraphTensor *of)
{
  const GraphTensor *scale = given(at->node, input);
  if (!scale) return true;
  if (scale->rank > of->rank) return refuse(at, input, "rank", NULL, "it is to broadcast to keys or values");
  for (unsigned d = 0; d < scale->rank; d++)
    if (!symbolic_equals(scale->shape[d], 1) &&
        !check_same(at, input, d, of->shape[of->rank - scale->rank + d], "that of what it multiplies"))
      return false;
  int beyond = graph_scale_beyond(at->node, scale, of);
  if (beyond < 0) return true;
  bool elements = beyond + 1 == (int)of->rank;
  return infer_refuse(at, ERROR_UNSUPPORTED, &at->node->input_marks[input], "scale",
                      elements ? "one for each head: [heads, 1]"
                               : "of caches [sequences, keys, heads, 1], of pages [pages, rows, heads, 1]; "
                                 "else DequantizeLinear in front",
                      "`%s` varies along %s, which is not supported", scale->name,
                      elements ? "the elements of a head" : "keys that lie behind one another or in pages");
}

/* One number for each head of queries, or one for all. */
static bool check_of_heads(Inference *at, unsigned input, const char *what)
{
  const GraphTensor *numbers = given(at->node, input), *q = at->node->inputs[SEQUENCES_Q];
  bool fits = !numbers || graph_has_one_element(numbers) ||
              (numbers->rank == 1 && infer_same(at, numbers->shape[0], q->shape[1]));
  if (fits) return true;
  g_autofree char *message =
      g_strdup_printf("%s are one number for each head of queries, or one number", what);
  return refuse(at, input, "shape", NULL, message);
}

/* Bits of each row, 32 in a number. */
static bool check_tree(Inference *at)
{
  const GraphTensor *tree = given(at->node, SEQUENCES_TREE);
  return !tree ||
         (check_rank(at, SEQUENCES_TREE, 2, "[T, words]") &&
          check_same(at, SEQUENCES_TREE, 0, at->node->inputs[SEQUENCES_Q]->shape[0], "that of the queries"));
}

static bool check_attributes(Inference *at)
{
  static const char *const windows[] = {"left_window_size", "right_window_size"};
  for (unsigned i = 0; i < G_N_ELEMENTS(windows); i++) {
    const GraphAttribute *window = graph_attribute(at->node, windows[i]);
    if (window->integer < -1 || window->integer > G_MAXINT32 / 2)
      return infer_refuse(at, ERROR_INPUT, &window->mark, windows[i], "-1: without end",
                          "`%s` is a number of keys, or -1", windows[i]);
  }
  const GraphAttribute *cap = graph_attribute(at->node, "softcap");
  if (!(cap->number >= 0))
    return infer_refuse(at, ERROR_INPUT, &cap->mark, "softcap", "0: none", "`softcap` is not negative");
  const GraphAttribute *scale = graph_attribute(at->node, "scale");
  return scale->number >= 0 || infer_refuse(at, ERROR_UNSUPPORTED, &scale->mark, "scale", "0: 1 / sqrt(d)",
                                            "a scale that is not positive is not supported");
}

bool infer_sequences(Inference *at, Shape *shape)
{
  GraphNode *node = at->node;
  const GraphTensor *q = node->inputs[SEQUENCES_Q], *k = node->inputs[SEQUENCES_K],
                    *v = node->inputs[SEQUENCES_V];
  if (!check_rank(at, SEQUENCES_Q, 3, "[T, Hq, d]") || !check_rank(at, SEQUENCES_ENDS, 1, "[B + 1]"))
    return false;
  if (symbolic_equals(node->inputs[SEQUENCES_ENDS]->shape[0], 0))
    return refuse(at, SEQUENCES_ENDS, "shape", NULL, "it begins with 0, and has an end for each sequence");
  if (!check_attributes(at) || !check_keys(at, one_less(at, node->inputs[SEQUENCES_ENDS]->shape[0])) ||
      !check_same(at, SEQUENCES_K, k->rank - 1, q->shape[2], "that of the queries") ||
      !check_scale(at, SEQUENCES_K_SCALE, k) || !check_scale(at, SEQUENCES_V_SCALE, v) ||
      !check_of_heads(at, SEQUENCES_SLOPES, "slopes") || !check_of_heads(at, SEQUENCES_SINK, "sinks") ||
      !check_tree(at))
    return false;
  int64_t heads, own;
  bool known = symbolic_is_constant(q->shape[1], &heads) && symbolic_is_constant(k->shape[k->rank - 2], &own);
  if (!known || own < 1 || heads % own)
    return refuse(at, SEQUENCES_Q, "shape", NULL,
                  "its heads are a known number, a multiple of those of the keys");
  *shape = infer_shape_of(q);
  shape->dims[2] = v->shape[v->rank - 1];
  return true;
}
