#include "cli/cli.h"
#include "generator/operators.h"

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

bool command_ops(const Cli *cli, const Arguments *arguments, GError **error)
{
  unsigned n = 0;
  const Operator *operators = operator_table(&n);
  g_autoptr(Table) table = table_new((const char *[]){"operator", "domain", ">since", "types", NULL});
  json_t *list = json_array();
  for (unsigned i = 0; i < n; i++) {
    const Operator *row = &operators[i];
    g_autofree char *since = g_strdup_printf("%u", row->since), *types = type_words(row->generated);
    table_row(table, row->name, *row->domain ? row->domain : "ai.onnx", since, types, NULL);
    json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:o}", "op", row->name, "domain", row->domain,
                                          "since", (int)row->since, "types", type_array(row->generated)));
  }
  if (cli->json)
    cli_print_json(json_pack("{s:i, s:o}", "version", 1, "ops", list));
  else {
    table_print(table, cli);
    json_decref(list);
  }
  return true;
}
