#include "cli/cli.h"
#include "generator/front/operators.h"
#include <limits.h>

static json_t *type_array(TypeMask types)
{
  json_t *list = json_array();
  for (unsigned type = 0; type < NUMBER_TYPE_COUNT; type++)
    if (types >> type & 1) json_array_append_new(list, json_string(number_name(type)));
  return list;
}

static char *type_words(TypeMask types)
{
  GString *text = g_string_new(NULL);
  for (unsigned type = 0; type < NUMBER_TYPE_COUNT; type++)
    if (types >> type & 1) g_string_append_printf(text, "%s%s", text->len ? " " : "", number_name(type));
  return g_string_free(text, FALSE);
}

/* [least, most]; most is null where there may be any number. */
static json_t *range(unsigned least, unsigned most)
{
  json_t *list = json_pack("[i]", (int)least);
  json_array_append_new(list, most == UINT_MAX ? json_null() : json_integer(most));
  return list;
}

static json_t *attribute_default(const OperatorAttribute *row)
{
  if (row->required) return json_null();
  switch (row->kind) {
  case ATTRIBUTE_INT: return json_integer(row->integer);
  case ATTRIBUTE_FLOAT: return json_real(row->number);
  case ATTRIBUTE_STRING: return json_string(row->text);
  case ATTRIBUTE_INTS:
  case ATTRIBUTE_FLOATS:
  case ATTRIBUTE_STRINGS:
  case ATTRIBUTE_GRAPH:
  case ATTRIBUTE_TYPE: break; /* absent */
  }
  return json_null();
}

static json_t *attribute_array(const Operator *op)
{
  static const char *const kinds[] = {"int", "float", "ints", "string", "type", "floats", "strings", "graph"};
  json_t *list = json_array();
  for (unsigned i = 0; i < op->n_attributes; i++) {
    const OperatorAttribute *row = &op->attributes[i];
    json_t *object = json_pack("{s:s, s:s, s:b, s:o}", "name", row->name, "kind", kinds[row->kind],
                               "required", row->required, "default", attribute_default(row));
    if (row->choices) {
      json_t *choices = json_array();
      for (unsigned j = 0; row->choices[j]; j++)
        json_array_append_new(choices, json_string(row->choices[j]));
      json_object_set_new(object, "choices", choices);
    }
    json_array_append_new(list, object);
  }
  return list;
}

static json_t *operator_json(const Operator *row)
{
  return json_pack("{s:s, s:s, s:i, s:o, s:o, s:o, s:o}", "op", row->name, "domain", row->domain, "since",
                   (int)row->since, "types", type_array(row->generated), "inputs",
                   range(row->min_inputs, row->max_inputs), "outputs",
                   range(row->min_outputs, row->max_outputs), "attributes", attribute_array(row));
}

bool command_ops(const Cli *cli, const Arguments *arguments, GError **error)
{
  unsigned n = 0;
  const Operator *operators = operator_table(&n);
  g_autoptr(Table) table = table_new((const char *[]){"operator", "domain", ">since", "types", NULL});
  json_t *list = json_array();
  for (unsigned i = 0; i < n; i++) {
    const Operator *row = &operators[i];
    if (row->class_ == OPERATOR_LOOP) continue; /* no description has it */
    g_autofree char *since = g_strdup_printf("%u", row->since), *types = type_words(row->generated);
    table_row(table, row->name, *row->domain ? row->domain : "ai.onnx", since, types, NULL);
    json_array_append_new(list, operator_json(row));
  }
  if (cli->json)
    cli_print_json(json_pack("{s:i, s:o}", "version", 1, "ops", list));
  else {
    table_print(table, cli);
    json_decref(list);
  }
  return true;
}
