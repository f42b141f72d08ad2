/* A reader of another format: graphs from C, against the same graphs as text. */
#include "generator/front/builder.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Values of attributes as this format has them. */
typedef struct {
  char kind; /* i, f, s, I */
  int64_t integer;
  double number;
  const char *string;
  const int64_t *integers;
  unsigned n;
} Value;

static bool wrong(const char *what, GError **error)
{
  error_set(error, ERROR_INPUT, NULL, "wrong-type", NULL, "not %s", what);
  return false;
}

static bool integer(const void *value, int64_t *result, GError **error)
{
  const Value *v = value;
  *result = v->integer;
  return v->kind == 'i' || wrong("an integer", error);
}

static bool number(const void *value, double *result, GError **error)
{
  const Value *v = value;
  *result = v->number;
  return v->kind == 'f' || wrong("a number", error);
}

static bool string(const void *value, const char **result, GError **error)
{
  const Value *v = value;
  *result = v->string;
  return v->kind == 's' || wrong("a string", error);
}

static bool list(const void *value, const char *what, unsigned *n, GError **error)
{
  const Value *v = value;
  *n = v->n;
  return v->kind == 'I' || wrong(what, error);
}

/* Items are integers: each is told by its place, which the test keeps. */
static Value items[8];
static const void *item(const void *value, unsigned i)
{
  items[i] = (Value){.kind = 'i', .integer = ((const Value *)value)->integers[i]};
  return &items[i];
}

static bool is_number(const void *value)
{
  return ((const Value *)value)->kind == 'i';
}

static Mark mark_of(const void *value)
{
  return (Mark){0};
}

static const GraphValueFormat format = {integer, number, string, list, item, is_number, mark_of};

static void add_input(GraphBuilder *b, const char *name, const char *rows, int64_t columns)
{
  GraphTensorSpec spec = {
      .name = name, .has_type = true, .type = NUMBER_F32, .rank = 2, .n_strides = GRAPH_RANK_UNKNOWN};
  Arena *arena = graph_builder_arena(b);
  spec.shape[0] = symbolic_symbol(arena, rows);
  spec.shape[1] = symbolic_constant(arena, columns);
  graph_builder_input(b, &spec);
}

static void add_node(GraphBuilder *b, const char *op, const char *in, const char *out, const char *attribute,
                     const Value *value)
{
  GraphNameSpec input = {in, {0}}, output = {out, {0}};
  GraphAttributeSpec attributes = {attribute, {0}, value};
  GraphNodeSpec spec = {.op = op,
                        .domain = "",
                        .name = "",
                        .inputs = &input,
                        .n_inputs = 1,
                        .outputs = &output,
                        .n_outputs = 1,
                        .attributes = &attributes,
                        .n_attributes = attribute != NULL};
  graph_builder_open_node(b);
  graph_builder_close_node(b, &spec);
}

static void test_same_as_text(void **state)
{
  static const char text[] =
      "{\"name\": \"two\", \"inputs\": {\"x\": {\"type\": \"f32\", \"shape\": [\"M\", 64]}}, \"nodes\": ["
      "{\"op\": \"Transpose\", \"inputs\": [\"s\"], \"outputs\": [\"y\"], \"attributes\": {\"perm\": [1, "
      "0]}},"
      "{\"op\": \"Softmax\", \"inputs\": [\"x\"], \"outputs\": [\"s\"], \"attributes\": {\"axis\": 0}}],"
      "\"outputs\": [\"y\"]}";
  g_autoptr(Source) source = source_new("two.json", text, strlen(text)), other = source_new("two", "", 0);
  GError *error = NULL;
  g_autoptr(Graph) expected = graph_read(source, NULL, 0, &error);
  assert_non_null(expected);
  GraphBuilder *b = graph_builder_new(other, &format, &(GraphReading){0}, &error);
  const int64_t perm[] = {1, 0};
  graph_builder_name(b, "two", &(Mark){0});
  add_input(b, "x", "M", 64);
  add_node(b, "Transpose", "s", "y", "perm", &(Value){.kind = 'I', .integers = perm, .n = 2});
  add_node(b, "Softmax", "x", "s", "axis", &(Value){.kind = 'i', .integer = 0});
  graph_builder_output(b, "y", &(Mark){0});
  g_autoptr(Graph) graph = graph_builder_finish(b);
  assert_null(error);
  assert_non_null(graph);
  g_autofree char *a = graph_dump(expected), *c = graph_dump(graph);
  assert_string_equal(a, c);
}

/* Every fault is told in one run, and what follows from one is not. */
static void test_faults(void **state)
{
  g_autoptr(Source) source = source_new("wrong", "", 0);
  GError *error = NULL;
  GraphBuilder *b = graph_builder_new(source, &format, &(GraphReading){0}, &error);
  add_input(b, "x", "M", 64);
  add_node(b, "Softmax", "x", "s", "axis", &(Value){.kind = 'f', .number = 1});
  add_node(b, "Nonsense", "s", "t", NULL, NULL);
  add_node(b, "Relu", "t", "u", NULL, NULL);
  graph_builder_output(b, "v", &(Mark){0});
  assert_null(graph_builder_finish(b));
  assert_non_null(error);
  json_t *json = error_to_json(error);
  g_autofree char *message = json_dumps(json, JSON_COMPACT);
  assert_non_null(strstr(message, "not an integer"));
  assert_non_null(strstr(message, "unknown operator `Nonsense`"));
  assert_non_null(strstr(message, "no node produces the output `v`"));
  assert_null(strstr(message, "`u`"));
  json_decref(json);
  g_error_free(error);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_as_text), cmocka_unit_test(test_faults)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
