/* What every part of the builder stands on: reports, the table of names, types by name. */
#include "generator/front/private.h"
#include <string.h>

void graph_builder_report(GraphBuilder *b, ErrorCode code, const Mark *mark, const char *id, const char *hint,
                          const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  g_autofree char *message = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  b->failed = true;
  error_add(b->error, code, SEVERITY_ERROR, mark, id, hint, "%s", message);
}

void graph_builder_trust(GraphBuilder *b)
{
  b->trusting = true;
}

Arena *graph_builder_arena(GraphBuilder *b)
{
  return b->graph->arena;
}

GError **graph_builder_error(GraphBuilder *b)
{
  return b->error;
}

bool graph_builder_note(GraphBuilder *b, bool ok)
{
  b->failed = b->failed || !ok;
  return ok;
}

char *builder_suggest(const char *name, const char *const *candidates, const char *otherwise)
{
  const char *near = nearest_name(name, candidates);
  return near ? g_strdup_printf("did you mean `%s`?", near) : g_strdup(otherwise);
}

bool graph_builder_type(GraphBuilder *b, const char *name, const Mark *mark, NumberType *type,
                        unsigned *foreign)
{
  static const char *const ours[] = {"f64", "f32", "tf32", "f16", "bf16", "e4m3", "e5m2", "s8", "u8",
                                     "s32", "s64", "bool", "s4",  "u4",   "e2m1", "e8m0", NULL};
  bool parsed = number_parse(name, type);
  for (unsigned i = 0; parsed && ours[i]; i++)
    if (!strcmp(number_name(*type), ours[i])) return true;
  g_autofree char *all = g_strjoinv(", ", (char **)ours);
  g_autofree char *list = g_strdup_printf("types: %s", all);
  g_autofree char *hint = builder_suggest(name, ours, list);
  *foreign = onnx_type_parse(name);
  if (*foreign)
    graph_builder_report(b, ERROR_UNSUPPORTED, mark, "unsupported-type", list, "type `%s` is not supported",
                         name);
  else
    graph_builder_report(b, ERROR_INPUT, mark, "unknown-type", hint, "unknown type `%s`", name);
  return false;
}

void builder_define(GraphBuilder *b, GraphTensor *tensor, GPtrArray *list)
{
  GHashTable *tensors = b->body ? b->body->tensors : b->tensors;
  g_ptr_array_add(list, tensor);
  GraphTensor *earlier = g_hash_table_lookup(tensors, tensor->name);
  if (!earlier) {
    g_hash_table_insert(tensors, (void *)tensor->name, tensor);
    return;
  }
  graph_builder_report(b, ERROR_INPUT, &tensor->mark, "defined-twice", "give each tensor a name of its own",
                       "tensor `%s` is defined a second time", tensor->name);
  error_add(b->error, ERROR_INPUT, SEVERITY_NOTE, &earlier->mark, "defined-twice", NULL,
            "first defined here");
}

const char *graph_builder_free_name(GraphBuilder *b, const char *name)
{
  return builder_free_name(b, name, "");
}

const char **builder_tensor_names(const GraphBuilder *b, const GraphBody *body)
{
  GPtrArray *names = g_ptr_array_new();
  GHashTableIter iter;
  gpointer name;
  for (; body; body = body->outer)
    for (g_hash_table_iter_init(&iter, body->tensors); g_hash_table_iter_next(&iter, &name, NULL);)
      g_ptr_array_add(names, name);
  GPtrArray *const lists[] = {b->inputs, b->constants, b->computed};
  for (unsigned i = 0; i < G_N_ELEMENTS(lists); i++)
    for (unsigned j = 0; j < lists[i]->len; j++)
      g_ptr_array_add(names, (void *)((GraphTensor *)lists[i]->pdata[j])->name);
  g_ptr_array_add(names, NULL);
  return (const char **)g_ptr_array_free(names, FALSE);
}

void builder_report_undefined(GraphBuilder *b, const GraphBody *body, const char *name, const Mark *mark)
{
  g_autofree const char **known = builder_tensor_names(b, body);
  g_autofree char *hint = builder_suggest(name, known, NULL);
  graph_builder_report(b, ERROR_INPUT, mark, "undefined-tensor", hint, "tensor `%s` is not defined", name);
}

GraphTensor *builder_find(const GraphBuilder *b, const GraphBody *body, const char *name)
{
  for (; body; body = body->outer) {
    GraphTensor *tensor = g_hash_table_lookup(body->tensors, name);
    if (tensor) return tensor;
  }
  return g_hash_table_lookup(b->tensors, name);
}

const char *builder_free_name(GraphBuilder *b, const char *name, const char *separator)
{
  if (!g_hash_table_contains(b->tensors, name)) return arena_strdup(b->graph->arena, name);
  unsigned number = GPOINTER_TO_UINT(g_hash_table_lookup(b->numbers, name));
  const char *found;
  do {
    number = MAX(number + 1, 2);
    found = arena_printf(b->graph->arena, "%s%s%u", name, separator, number);
  } while (g_hash_table_contains(b->tensors, found));
  g_hash_table_insert(b->numbers, g_strdup(name), GUINT_TO_POINTER(number));
  return found;
}
