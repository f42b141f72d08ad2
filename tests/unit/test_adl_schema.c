/* The schema table against itself, and docs/adl.md against the schema. */
#include "adl/quantity.h"
#include "adl/schema.h"
#include "base/data.h"
#include "base/document.h"
#include <glib/gstdio.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_rules_are_consistent(void **state)
{
  for (unsigned i = 0; i < schema_n_rules; i++) {
    const Rule *rule = &schema_rules[i];
    assert_non_null(schema_section(rule->section));
    bool is_number = rule->kind == RULE_NUMBER || rule->kind == RULE_NUMBERS || rule->kind == RULE_RANGES;
    assert_true(!is_number || rule->unit);
    assert_int_equal(rule->kind == RULE_CHOICE || rule->kind == RULE_CHOICES, rule->choices != NULL);
    /* What a consumer reads as a whole number cannot be unknown. */
    assert_false(rule->field == FIELD_UNSIGNED && (rule->flags & RULE_MAY_BE_UNKNOWN));
    for (unsigned j = 0; j < i; j++)
      assert_false(!strcmp(schema_rules[j].section, rule->section) &&
                   !strcmp(schema_rules[j].key, rule->key));
  }
}

static Node *member(Node *map, const char *key)
{
  return map && map->kind == NODE_MAPPING ? node_get(map, key) : NULL;
}

/* Every rule says in adl/bounds.yaml what it does; the families too. */
static void test_effects_are_complete(void **state)
{
  json_t *rules = gpu_rules(NULL);
  assert_true(json_array_size(rules) > schema_n_rules);
  for (size_t i = 0; i < json_array_size(rules); i++) {
    json_t *rule = json_array_get(rules, i);
    const char *path = json_string_value(json_object_get(rule, "path"));
    if (!json_string_value(json_object_get(rule, "effect")))
      fail_msg("adl/bounds.yaml: the row of %s has neither `is` nor `has`, nor says once what the value does",
               path);
  }
  json_decref(rules);
}

/* Every key has a row in adl/bounds.yaml, which says what it may be or why it may be anything, and no row is
 * of a key that is not there. */
static void test_bounds_are_complete(void **state)
{
  g_autoptr(Source) source = data_load("adl/bounds.yaml", NULL);
  g_autoptr(Document) document = document_parse(source, NULL);
  Node *root = document_root(document), *common = node_get(root, "family");
  for (unsigned i = 0; i < schema_n_rules; i++) {
    const Rule *rule = &schema_rules[i];
    if (!*rule->section) continue; /* target and ptx: adl/targets.yaml */
    Node *row = member(member(root, rule->section), rule->key);
    if (!row && schema_section(rule->section)->is_family) row = member(common, rule->key);
    if (!row) fail_msg("adl/bounds.yaml has no row for %s.%s", rule->section, rule->key);
    static const char *const ways[] = {"is", "has", "among", "from", "to", "per_sm", "per_clock", "free"};
    unsigned n = 0;
    for (unsigned k = 0; k < G_N_ELEMENTS(ways); k++)
      n += member(row, ways[k]) != NULL;
    assert_true(n > 0);
    assert_true(member(row, "free") || member(row, "why"));
  }
  for (unsigned i = 0; i < root->n; i++) {
    if (root->items[i]->kind != NODE_MAPPING || !schema_section(root->keys[i])) continue;
    g_autofree const char **keys = schema_keys(root->keys[i]);
    for (unsigned k = 0; k < root->items[i]->n; k++)
      if (strcmp(root->items[i]->keys[k], "source") && strcmp(root->items[i]->keys[k], "listed") &&
          !g_strv_contains(keys, root->items[i]->keys[k]))
        fail_msg("adl/bounds.yaml has a row for %s.%s", root->keys[i], root->items[i]->keys[k]);
  }
}

/* A table between its marks in docs/adl.md. */
static void check_page(const char *what, const char *tables)
{
  g_autofree char *path = g_build_filename(g_getenv("ADLGEN_SOURCE_ROOT"), "docs", "adl.md", NULL);
  g_autofree char *text = NULL, *begins = g_strdup_printf("<!-- %s -->", what),
                  *ends = g_strdup_printf("<!-- end of %s -->", what);
  assert_true(g_file_get_contents(path, &text, NULL, NULL));
  char *start = strstr(text, begins), *end = strstr(text, ends);
  assert_non_null(start);
  assert_non_null(end);
  start += strlen(begins);
  g_autofree char *now = g_strndup(start, (gsize)(end - start));
  g_autofree char *expected = g_strdup_printf("\n%s\n", tables);
  if (g_getenv("ADLGEN_UPDATE") && strcmp(now, expected)) {
    g_autoptr(GString) all = g_string_new_len(text, start - text);
    g_string_append(all, expected);
    g_string_append(all, end);
    assert_true(g_file_set_contents(path, all->str, -1, NULL));
    return;
  }
  assert_string_equal(now, expected); /* ADLGEN_UPDATE=1 rewrites the page */
}

static void test_documentation(void **state)
{
  g_autofree char *schema = schema_to_markdown(NULL), *model = model_to_markdown();
  check_page("schema", schema);
  check_page("model", model);
}

/* Models of GPUs on which nothing was timed say so, each constant names its run or is a guess, and every run is a section of the log. */
static void test_models(void **state)
{
  g_autofree char *path =
      g_build_filename(g_getenv("ADLGEN_SOURCE_ROOT"), "docs", "performance-log.md", NULL);
  g_autofree char *log = NULL;
  assert_true(g_file_get_contents(path, &log, NULL, NULL));
  g_auto(GStrv) names = gpu_names();
  for (char **name = names; *name; name++) {
    g_autoptr(Gpu) gpu = gpu_load(*name, NULL);
    assert_non_null(gpu);
    const CostModel *model = gpu->model;
    assert_true(model->guess ? !model->gpu : !strcmp(model->gpu, gpu->name));
    for (unsigned i = 0; i < model->n_constants; i++) {
      const CostConstant *constant = &model->constants[i];
      if (!model->guess) assert_true(constant->guess == !constant->run); /* and says why */
      if (model->guess) assert_true(constant->guess);
      if (!model->guess) assert_non_null(constant->source);
      static const char prefix[] = "docs/performance-log.md: ";
      if (!constant->source || !g_str_has_prefix(constant->source, prefix)) continue;
      g_autofree char *heading = g_strdup_printf(": %s\n", constant->source + strlen(prefix));
      g_autofree char *line = g_strdup_printf("\n## %s", constant->date);
      const char *end = strstr(log, heading), *start = end ? g_strrstr_len(log, end - log, "\n## ") : NULL;
      if (!start || !g_str_has_prefix(start, line))
        fail_msg("run %s: the log has no section of %s%s", constant->run, constant->date, heading);
    }
  }
}

/* The files that docs/new-gpu.md has its reader write are right, in the order in which it does. */
static void test_walk_through(void **state)
{
  g_autofree char *path = g_build_filename(g_getenv("ADLGEN_SOURCE_ROOT"), "docs", "new-gpu.md", NULL);
  g_autofree char *text = NULL, *folder = g_dir_make_tmp("walkXXXXXX", NULL);
  assert_true(g_file_get_contents(path, &text, NULL, NULL));
  g_auto(GStrv) parts = g_strsplit(text, "<!-- file: ", -1);
  assert_int_equal(g_strv_length(parts), 1 + 3);
  for (char **part = parts + 1; *part; part++) {
    char *name = *part, *name_end = strstr(name, " -->"), *start = strstr(name, "```yaml\n");
    assert_true(name_end && start);
    char *end = strstr(start + 8, "```");
    *name_end = *end = 0;
    g_autofree char *file = g_build_filename(folder, name, NULL);
    assert_true(g_file_set_contents(file, start + 8, -1, NULL));
    g_autoptr(GError) error = NULL;
    gpu_check(file, &error);
    if (error) error_print(error, stderr, false);
    assert_null(error);
  }
  for (char **part = parts + 1; *part; part++) {
    g_autofree char *file = g_build_filename(folder, *part, NULL);
    g_unlink(file);
  }
  g_rmdir(folder);
}

/* The latency classes of the IR's opcode table are facts of every description. */
static void test_latency_classes(void **state)
{
  g_autofree char *path = g_build_filename(g_getenv("ADLGEN_SOURCE_ROOT"), "ir", "opcodes.def", NULL);
  g_autofree char *text = NULL;
  assert_true(g_file_get_contents(path, &text, NULL, NULL));
  g_autofree const char **keys = schema_keys("latency"), **families = schema_keys("families");
  g_auto(GStrv) parts = g_strsplit(text, "\"latency.", -1);
  assert_true(g_strv_length(parts) > 10);
  for (char **part = parts + 1; *part; part++) {
    g_autofree char *name = g_strndup(*part, strcspn(*part, "\""));
    if (!g_strv_contains(keys, name) && !g_strv_contains(families, name))
      fail_msg("latency.%s is not a fact", name);
  }
}

static void test_quantity_text(void **state)
{
  static const struct {
    double value;
    const char *unit, *text;
  } cases[] = {
      {232448, "B", "227 KiB"},
      {41943040, "B", "40 MiB"},
      {80e9, "B", "80 GB"},
      {1, "B", "1 B"},
      {0, "B", "0 B"},
      {75497472, "B", "72 MiB"},
      {3.35e12, "B/s", "3350 GB/s"},
      {989.4e12, "FLOP/s", "989.4 TFLOP/s"},
      {132, "SMs", "132 SMs"},
      {24.6, "cycles", "24.6 cycles"},
      {1048575, "B", "1048575 B"},
  };
  for (unsigned i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = quantity_text(cases[i].value, cases[i].unit);
    assert_string_equal(text, cases[i].text);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rules_are_consistent),
      cmocka_unit_test(test_effects_are_complete),
      cmocka_unit_test(test_bounds_are_complete),
      cmocka_unit_test(test_documentation),
      cmocka_unit_test(test_models),
      cmocka_unit_test(test_walk_through),
      cmocka_unit_test(test_latency_classes),
      cmocka_unit_test(test_quantity_text),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
