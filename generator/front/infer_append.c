/* AppendRows: rows that are put into caches where these lie. Outputs that lie in the memory of an input. */
#include "generator/front/append.h"
#include "generator/front/infer_private.h"
#include <string.h>

AppendPlaces append_places(const GraphNode *node)
{
  return strcmp(graph_attribute(node, "places")->text, "slots") ? APPEND_AT_BEGINS : APPEND_AT_SLOTS;
}

int64_t append_slots(const GraphTensor *input)
{
  for (unsigned i = 0; i < input->n_consumers; i++) {
    const GraphNode *node = input->consumers[i];
    int64_t slots = 1, extent;
    bool reads = node->op->id == ONNX_AppendRows && node->inputs[APPEND_PLACES] == input;
    if (!reads || append_places(node) != APPEND_AT_SLOTS) continue;
    const GraphTensor *cache = append_cache(node, 0);
    for (unsigned d = 0; d <= cache->rank - append_rows(node, 0)->rank; d++)
      slots = symbolic_is_constant(cache->shape[d], &extent) ? slots * extent : 0;
    return slots;
  }
  return 0;
}

static bool coprime(int64_t a, int64_t b)
{
  while (b) {
    int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a <= 1;
}

void append_fill_slots(NumberType type, void *values, size_t n, int64_t slots)
{
  enum { SKIPPED = 7, STEP = 5 };
  int64_t step = MAX(slots / STEP, 1), first = 0;
  while (!coprime(slots, step)) /* else some slots are never met, and others twice */
    step++;
  if (n) first = type == NUMBER_S32 ? ((int32_t *)values)[0] : ((int64_t *)values)[0];
  first = slots ? (int64_t)((uint64_t)first % (uint64_t)slots) : 0;
  for (size_t i = 0; i < n; i++) {
    bool stored = i % SKIPPED != SKIPPED - 1 && (int64_t)i < slots;
    int64_t slot = stored ? (first + (int64_t)i * step) % slots : -1;
    if (type == NUMBER_S32)
      ((int32_t *)values)[i] = (int32_t)slot;
    else
      ((int64_t *)values)[i] = slot;
  }
}

bool append_is_table(const GraphTensor *input)
{
  for (unsigned i = 0; i < input->n_consumers; i++)
    if (input->consumers[i]->op->id == ONNX_AppendRows && append_table(input->consumers[i]) == input)
      return true;
  return false;
}

void append_fill_table(NumberType type, void *values, size_t n, int64_t pages)
{
  enum { STEP = 5 };
  int64_t step = MAX(pages / STEP, 1);
  while (!coprime(pages, step))
    step++;
  for (size_t i = 0; i < n && pages > 0; i++) {
    int64_t page = (int64_t)i % pages * step % pages;
    if (type == NUMBER_S32)
      ((int32_t *)values)[i] = (int32_t)page;
    else
      ((int64_t *)values)[i] = page;
  }
}

/* Rows that a batch has where others are put, and rows that come, where places are begins. */
static void find_room(const GraphNode *node, int64_t *room, int64_t *rows)
{
  unsigned axis = (unsigned)__builtin_ctz(node->axes);
  int64_t pages;
  symbolic_is_constant(append_cache(node, 0)->shape[axis], room);
  symbolic_is_constant(append_rows(node, 0)->shape[axis], rows);
  if (append_table(node))
    *room = symbolic_is_constant(append_table(node)->shape[1], &pages) ? *room * pages : G_MAXINT64;
}

static bool is_circular(const GraphNode *node)
{
  return !strcmp(graph_attribute(node, "mode")->text, "circular");
}

int64_t append_begins(const GraphTensor *input)
{
  int64_t least = 0;
  for (unsigned i = 0; i < input->n_consumers; i++) {
    const GraphNode *node = input->consumers[i];
    bool reads = node->op->id == ONNX_AppendRows && node->inputs[APPEND_PLACES] == input;
    if (!reads || append_places(node) != APPEND_AT_BEGINS || is_circular(node)) continue;
    int64_t room = 0, rows = 1;
    find_room(node, &room, &rows);
    int64_t begins = MAX(room - rows, 0) + (room - rows < G_MAXINT64);
    if (!least || begins < least) least = begins;
  }
  return least;
}

char *append_fault(const GraphNode *node, NumberType type, const void *values, size_t n)
{
  const GraphTensor *places = node->inputs[APPEND_PLACES];
  bool at_slots = append_places(node) == APPEND_AT_SLOTS;
  int64_t room = at_slots ? append_slots(places) : 0, rows = 1;
  if (!at_slots && is_circular(node)) return NULL;
  if (!at_slots) find_room(node, &room, &rows);
  for (size_t i = 0; i < n; i++) {
    int64_t value = type == NUMBER_S32 ? ((const int32_t *)values)[i] : ((const int64_t *)values)[i];
    bool below = !at_slots && value < 0; /* rows of a slot below 0 are not stored, and are not meant to be */
    if (!below && (value < 0 || value <= room - rows)) continue;
    return g_strdup_printf("element %zu of `%s`, where rows go, is %" G_GINT64_FORMAT
                           "; the cache has %s%" G_GINT64_FORMAT " rows",
                           i, places->name, value, at_slots ? "slots for " : "", room);
  }
  return NULL;
}

static bool refuse(Inference *at, unsigned input, const char *id, const char *hint, const char *what)
{
  const GraphTensor *tensor = at->node->inputs[input];
  g_autofree char *text = graph_shape_text(tensor->shape, tensor->rank);
  return infer_refuse(at, ERROR_INPUT, &at->node->input_marks[input], id, hint,
                      "`%s` of AppendRows is %s %s; %s", tensor->name, number_name(tensor->type), text, what);
}

static bool is_given(const GraphNode *node, unsigned input)
{
  return node->n_inputs > input && node->inputs[input];
}

bool infer_append_type(Inference *at, NumberType *type)
{
  const GraphNode *node = at->node;
  const GraphTensor *places = node->inputs[APPEND_PLACES];
  *type = node->inputs[APPEND_CACHE]->type;
  if (!(node->op->types >> *type & 1))
    return refuse(at, APPEND_CACHE, "type", NULL, "caches of this type are not supported");
  if (places && places->type != NUMBER_S32 && places->type != NUMBER_S64)
    return refuse(at, APPEND_PLACES, "type", "insert a Cast", "places are s32 or s64");
  const GraphTensor *table = append_table(node);
  if (table && table->type != NUMBER_S32 && table->type != NUMBER_S64)
    return refuse(at, APPEND_TABLE, "type", "insert a Cast", "tables are s32 or s64");
  for (unsigned i = APPEND_ROWS; i < MIN(node->n_inputs, APPEND_TABLE); i++)
    if (node->inputs[i] && node->inputs[i]->type != *type)
      return refuse(at, i, "type", "insert a Cast", "caches and rows are of one type");
  return true;
}

static bool check_same(Inference *at, unsigned input, unsigned d, const Symbolic *want)
{
  if (infer_same(at, at->node->inputs[input]->shape[d], want)) return true;
  g_autofree char *text = symbolic_text(want);
  g_autofree char *message = g_strdup_printf("its dimension %u is to be %s", d, text);
  return refuse(at, input, "shape", NULL, message);
}

/* [T, ...] into [C, ...] or [pages, rows, ...] */
static bool check_slots(Inference *at, unsigned cache_input, unsigned rows_input)
{
  const GraphNode *node = at->node;
  const GraphTensor *cache = node->inputs[cache_input], *rows = node->inputs[rows_input];
  if (!node->inputs[APPEND_PLACES] || node->inputs[APPEND_PLACES]->rank != 1)
    return infer_refuse(at, ERROR_INPUT, &node->mark, "missing-input", NULL,
                        "AppendRows by slots needs a slot for each row, a list");
  if (rows->rank < 1 || (cache->rank != rows->rank && cache->rank != rows->rank + 1))
    return refuse(at, rows_input, "rank", "rows [T, ...], a cache [slots, ...] or [pages, rows, ...]",
                  "its rank does not fit the cache's");
  if (!check_same(at, rows_input, 0, node->inputs[APPEND_PLACES]->shape[0])) return false;
  unsigned more = cache->rank - rows->rank;
  for (unsigned d = 1; d < rows->rank; d++)
    if (!check_same(at, rows_input, d, cache->shape[d + more])) return false;
  return true;
}

/* As the cache, but along the axis. */
static bool check_begins(Inference *at, unsigned cache_input, unsigned rows_input, unsigned axis)
{
  const GraphNode *node = at->node;
  const GraphTensor *cache = node->inputs[cache_input], *rows = node->inputs[rows_input],
                    *begins = node->inputs[APPEND_PLACES];
  if (rows->rank != cache->rank) return refuse(at, rows_input, "rank", NULL, "its rank is not the cache's");
  const GraphTensor *table = append_table(node);
  if (begins && (begins->rank != 1 || !infer_same(at, begins->shape[0], (table ? rows : cache)->shape[0])))
    return refuse(at, APPEND_PLACES, "shape", NULL, "it is one index for each batch");
  if (table && (table->rank != 2 || !infer_same(at, table->shape[0], rows->shape[0])))
    return refuse(at, APPEND_TABLE, "shape", NULL, "it has a row of pages for each batch");
  for (unsigned d = table ? 1 : 0; d < rows->rank; d++)
    if (d != axis && !check_same(at, rows_input, d, cache->shape[d])) return false;
  return true;
}

bool infer_append(Inference *at, Shape *shape)
{
  GraphNode *node = at->node;
  const GraphAttribute *attribute = graph_attribute(node, "axis");
  bool slots = append_places(node) == APPEND_AT_SLOTS;
  bool second = is_given(node, APPEND_SECOND_CACHE);
  unsigned axis = 0, pairs = second ? 2 : 1;
  const Mark *mark = attribute->given ? &attribute->mark : &node->mark;
  if (is_given(node, APPEND_SECOND_ROWS) != second || node->n_outputs > pairs)
    return infer_refuse(at, ERROR_INPUT, &node->mark, "missing-input", NULL,
                        "AppendRows takes a cache with its rows, and gives as many caches as it takes");
  if (!slots && !infer_axis(at, attribute->integer, node->inputs[APPEND_CACHE]->rank, mark, &axis))
    return false;
  if (append_table(node) && (slots || strcmp(graph_attribute(node, "mode")->text, "linear") != 0))
    return infer_refuse(at, ERROR_INPUT, &node->input_marks[APPEND_TABLE], "table", "places: begins",
                        "AppendRows takes a table of pages with `places` begins and `mode` linear");
  if (!slots && !axis)
    return infer_refuse(at, ERROR_UNSUPPORTED, mark, "axis", "axis 0 is that of batches",
                        "AppendRows along axis 0 is not supported");
  node->axes = 1u << axis;
  *shape = infer_shape_of(node->inputs[APPEND_CACHE]);
  for (unsigned i = 0; i < pairs; i++) {
    unsigned cache = i ? APPEND_SECOND_CACHE : APPEND_CACHE, rows = i ? APPEND_SECOND_ROWS : APPEND_ROWS;
    if (!(slots ? check_slots(at, cache, rows) : check_begins(at, cache, rows, axis))) return false;
    if (i && (node->inputs[cache]->rank != shape->rank ||
              !graph_same_shape(node->inputs[cache], node->inputs[APPEND_CACHE])))
      return refuse(at, cache, "shape", NULL, "both caches are of one shape");
  }
  return true;
}

/* ---- outputs in the memory of an input ---- */

static bool report(GraphBuilder *b, const BuilderSharing *sharing, const char *hint, const char *format, ...)
    G_GNUC_PRINTF(4, 5);

static bool report(GraphBuilder *b, const BuilderSharing *sharing, const char *hint, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  g_autofree char *text = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  graph_builder_report(b, ERROR_INPUT, &sharing->mark, "in-place", hint, "%s", text);
  return false;
}

/* One output lies in an input's memory, also where operators say so by their definition. */
static bool is_alone(const GraphBuilder *b, unsigned i)
{
  const BuilderSharing *sharing = &g_array_index(b->sharing, BuilderSharing, i);
  for (unsigned j = 0; j < i; j++)
    if (!strcmp(g_array_index(b->sharing, BuilderSharing, j).input, sharing->input)) return false;
  return true;
}

static bool settle(GraphBuilder *b, unsigned i)
{
  const BuilderSharing *sharing = &g_array_index(b->sharing, BuilderSharing, i);
  GraphTensor *output = g_hash_table_lookup(b->tensors, sharing->output);
  const GraphTensor *input = output ? output->memory : NULL;
  if (!input) return false; /* reported before */
  if (!is_alone(b, i))
    return report(b, sharing, NULL, "`%s` cannot lie in `%s`: another output does", output->name,
                  input->name);
  const GraphNode *writer = output->producer;
  bool appends = writer && writer->op->id == ONNX_AppendRows;
  for (unsigned i = 0; appends && i < writer->n_outputs; i++)
    if (writer->outputs[i] == output && append_cache(writer, i) != input)
      return report(b, sharing, NULL, "`%s` lies in `%s`, and is a cache in other memory", output->name,
                    input->name);
  if (!appends)
    return report(b, sharing, "AppendRows, TensorScatter, GroupQueryAttention",
                  "`%s` cannot lie in `%s`: %s does not write in place", output->name, input->name,
                  writer ? graph_written_operator(writer)->name : "its node");
  memcpy(output->strides, input->strides, sizeof input->strides);
  output->align = input->align;
  return true;
}

static bool is_overwritten(const GraphBuilder *b, const GraphTensor *input)
{
  for (unsigned i = 0; i < b->sharing->len; i++)
    if (!strcmp(g_array_index(b->sharing, BuilderSharing, i).input, input->name)) return true;
  return false;
}

/* Nobody else may read what is written over: not even before, as nothing keeps launches that share no tensor in order. */
static bool check_readers(GraphBuilder *b, const GraphNode *node)
{
  for (unsigned i = 0; i < node->n_inputs; i++) {
    const GraphTensor *input = node->inputs[i];
    if (!input || !is_overwritten(b, input)) continue;
    bool appends = node->op->id == ONNX_AppendRows && (i == APPEND_CACHE || i == APPEND_SECOND_CACHE);
    if (appends) continue;
    graph_builder_report(b, ERROR_INPUT, &node->mark, "in-place", "read the output that lies in its memory",
                         "%s reads `%s`, which is written over in place", graph_written_operator(node)->name,
                         input->name);
    return false;
  }
  return true;
}

static bool check_append(GraphBuilder *b, const GraphNode *node)
{
  for (unsigned i = 0; i < node->n_outputs; i++)
    if (node->outputs[i] && !node->outputs[i]->memory) {
      graph_builder_report(b, ERROR_INPUT, &node->mark, "in-place",
                           "in_place: {OUTPUT: CACHE}, of an output and an input of the graph",
                           "AppendRows writes in place: `%s` has to lie in the memory of `%s`",
                           node->outputs[i]->name, append_cache(node, i)->name);
      return false;
    }
  return true;
}

bool infer_settle_memory(GraphBuilder *b)
{
  bool ok = true;
  for (unsigned i = 0; i < b->sharing->len; i++)
    ok = settle(b, i) && ok;
  for (unsigned i = 0; ok && i < b->expanded->len; i++) {
    const GraphNode *node = b->expanded->pdata[i];
    ok = check_readers(b, node) && (node->op->id != ONNX_AppendRows || check_append(b, node));
  }
  return ok;
}
