#include "adl/gpu.h"
#include "base/data.h"
#include "cli/cli.h"
#include <string.h>

/* Every family name that adl/gpu.h documents, in its order. */
static const char *const families[] = {"copy_plain",
                                       "copy_async",
                                       "tma",
                                       "thread_fma",
                                       "warp_mma",
                                       "warpgroup_mma",
                                       "matrix_load",
                                       "matrix_store",
                                       "mbarrier",
                                       "register_reallocation",
                                       "cluster",
                                       "elect",
                                       "dependent_launch",
                                       "lane_reduce",
                                       "cache_hint"};

static char *number_text(double value, double unit, const char *format)
{
  if (!fact_known(value)) return g_strdup("unknown");
  return g_strdup_printf(format, value / unit);
}

/* ---- list ---- */

static json_t *json_number(double value)
{
  return fact_known(value) ? json_real(value) : json_null();
}

static json_t *summary(const Gpu *gpu)
{
  return json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:o, s:o}", "name", gpu->name, "product",
                   gpu->product, "arch", gpu->arch, "target", gpu->target, "file", gpu->file, "sms",
                   (int)gpu->sm_count, "shared_per_block", (int)gpu->shared_per_block, "registers_per_sm",
                   (int)gpu->registers_per_sm, "memory_bytes", json_number(gpu->memory_bytes),
                   "memory_bandwidth", json_number(gpu->memory_bandwidth));
}

static void list_row(Table *table, const Gpu *gpu)
{
  g_autofree char *sms = g_strdup_printf("%u", gpu->sm_count);
  g_autofree char *memory = number_text(gpu->memory_bytes, 1e9, "%.0f GB");
  g_autofree char *bandwidth = number_text(gpu->memory_bandwidth, 1e9, "%.0f GB/s");
  table_row(table, gpu->name, gpu->product, gpu->arch, gpu->target, sms, memory, bandwidth, NULL);
}

static bool list_gpus(const Cli *cli, GError **error)
{
  g_auto(GStrv) names = gpu_names();
  g_autoptr(Table) table =
      table_new((const char *[]){"name", "product", "arch", "target", ">SMs", ">memory", ">bandwidth", NULL});
  json_t *list = json_array();
  for (char **name = names; *name; name++) {
    g_autoptr(Gpu) gpu = gpu_load(*name, error);
    if (!gpu) {
      json_decref(list);
      return false;
    }
    list_row(table, gpu);
    json_array_append_new(list, summary(gpu));
  }
  if (cli->json)
    cli_print_json(json_pack("{s:i, s:o}", "version", 1, "gpus", list));
  else {
    table_print(table, cli);
    json_decref(list);
  }
  return true;
}

/* ---- show ---- */

static char *number_list(const unsigned *values, unsigned n)
{
  GString *text = g_string_new(NULL);
  if (n > 3 && values[n - 1] - values[0] == (n - 1) * (values[1] - values[0]))
    g_string_printf(text, "%u, %u .. %u", values[0], values[1], values[n - 1]);
  else if (n > 6)
    g_string_printf(text, "%u, %u .. %u (%u of them)", values[0], values[1], values[n - 1], n);
  else
    for (unsigned i = 0; i < n; i++)
      g_string_append_printf(text, "%s%u", i ? ", " : "", values[i]);
  return g_string_free(text, FALSE);
}

static void print_products(const Gpu *gpu, const Cli *cli)
{
  g_autoptr(Table) table = table_new(
      (const char *[]){"product", "a", "b", "sum", ">m", ">k", "n", ">FLOP/clk/SM", "widened to", NULL});
  for (unsigned i = 0; i < gpu->n_products; i++) {
    const GpuProduct *product = &gpu->products[i];
    g_autofree char *m = g_strdup_printf("%u", product->m), *k = g_strdup_printf("%u", product->k);
    g_autofree char *n = number_list(product->n, product->n_count);
    g_autofree char *rate = number_text(product->flop_per_clock_per_sm, 1, "%.0f");
    table_row(table, product->family, number_name(product->a), number_name(product->b),
              number_name(product->acc), m, k, n, rate, product->widened ? number_name(product->through) : "",
              NULL);
  }
  putchar('\n');
  table_print(table, cli);
}

static void print_facts(const Gpu *gpu, const Cli *cli)
{
  g_autoptr(Table) table = table_new((const char *[]){"fact", ">value", "unit", "source", NULL});
  for (unsigned i = 0; i < gpu->n_facts; i++) {
    const GpuFact *fact = &gpu->facts[i];
    g_autofree char *value = number_text(fact->value, 1, "%.10g");
    g_autofree char *source =
        g_strdup_printf("%s%s", fact->source ? fact->source : "", fact->guess ? " (a guess)" : "");
    table_row(table, fact->path, value, fact->unit ? fact->unit : "", fact->effect ? fact->effect : "",
              source, NULL);
  }
  putchar('\n');
  table_print(table, cli);
}

/* "latency.global_load, 1/throughput.l1": facts of the description that a constant follows. */
static char *facts_text(const CostConstant *constant)
{
  GString *text = g_string_new(NULL);
  for (unsigned i = 0; i < constant->grows.n + constant->shrinks.n; i++) {
    bool grows = i < constant->grows.n;
    const CostFact *fact =
        grows ? &constant->grows.facts[i] : &constant->shrinks.facts[i - constant->grows.n];
    g_string_append_printf(text, "%s%s%s", i ? ", " : "", grows ? "" : "1/", fact->path);
  }
  return g_string_free(text, FALSE);
}

/* A model that was fitted on another GPU is a guess for this one, whatever it says of itself. */
static void print_model(const Gpu *gpu, const Cli *cli)
{
  const CostModel *model = gpu->model;
  printf("\ncost model %s, from %s\n  ", model->name, model->file);
  if (model->guess)
    printf("a guess: %s\n", model->guess);
  else
    printf("fitted on %s%s%s\n", model->gpu, strcmp(model->gpu, gpu->name) ? ", so a guess for " : "",
           strcmp(model->gpu, gpu->name) ? gpu->name : "");
  g_autoptr(Table) table =
      table_new((const char *[]){"constant", ">value", "unit", "run", "follows", "meaning", NULL});
  for (unsigned i = 0; i < model->n_constants; i++) {
    const CostConstant *constant = &model->constants[i];
    g_autofree char *value = number_text(constant->value, 1, "%.10g");
    g_autofree char *run = constant->run ? g_strdup_printf("%s %s%s", constant->run, constant->date,
                                                           constant->guess ? " (a guess here)" : "")
                                         : g_strdup("a guess");
    g_autofree char *follows = facts_text(constant);
    table_row(table, constant->name, value, constant->unit, run, follows, constant->meaning, NULL);
  }
  table_print(table, cli);
}

static void print_gpu(const Gpu *gpu, const Cli *cli)
{
  printf("%s: %s\n", gpu->name, gpu->product);
  printf("  arch %s, target %s, PTX %u.%u, from %s\n", gpu->arch, gpu->target, gpu->ptx_version / 10,
         gpu->ptx_version % 10, gpu->file);
  printf("  hash %s\n  families", gpu->hash);
  for (unsigned i = 0; i < G_N_ELEMENTS(families); i++)
    if (gpu_has(gpu, families[i])) printf(" %s", families[i]);
  putchar('\n');
  print_products(gpu, cli);
  print_facts(gpu, cli);
  print_model(gpu, cli);
}

static json_t *with_version(json_t *object)
{
  json_t *result = json_pack("{s:i}", "version", 1);
  json_object_update(result, object);
  json_decref(object);
  return result;
}

static bool show_gpu(const Cli *cli, const Arguments *arguments, GError **error)
{
  if (argument_count(arguments) != 1) {
    error_set(error, ERROR_USAGE, NULL, "missing-argument", "adlgen gpus lists the names",
              "adlgen gpus show needs one NAME or FILE.yaml");
    return false;
  }
  g_autoptr(Gpu) gpu = gpu_load(argument_at(arguments, 0), error);
  if (!gpu) return false;
  if (cli->json)
    cli_print_json(with_version(gpu_to_json(gpu)));
  else
    print_gpu(gpu, cli);
  return true;
}

/* ---- rules ---- */

static const char *text_of(json_t *rule, const char *key)
{
  const char *text = json_string_value(json_object_get(rule, key));
  return text ? text : "";
}

static bool print_rules(const Cli *cli, const Arguments *arguments, GError **error)
{
  if (argument_count(arguments)) {
    error_set(error, ERROR_USAGE, NULL, "unexpected-argument", NULL, "adlgen gpus rules takes no arguments");
    return false;
  }
  json_t *rules = gpu_rules(error);
  if (!rules) return false;
  if (cli->json) {
    cli_print_json(json_pack("{s:i, s:o}", "version", 1, "rules", rules));
    return true;
  }
  g_autoptr(Table) table = table_new((const char *[]){"rule", "may be", "does", "on what, or why", NULL});
  for (size_t i = 0; i < json_array_size(rules); i++) {
    json_t *rule = json_array_get(rules, i);
    const char *values = text_of(rule, "values");
    table_row(table, text_of(rule, "path"), *values ? values : text_of(rule, "form"), text_of(rule, "effect"),
              text_of(rule, "what"), NULL);
  }
  table_print(table, cli);
  json_decref(rules);
  return true;
}

/* ---- text ---- */

/* A description, an architecture's, or one of the tables that descriptions are checked against. */
static bool print_text(const Cli *cli, const Arguments *arguments, GError **error)
{
  static const char *const folders[] = {"adl/gpu/", "adl/arch/", "adl/"};
  if (argument_count(arguments) != 1) {
    error_set(error, ERROR_USAGE, NULL, "missing-argument", "adlgen gpus lists the names",
              "adlgen gpus text needs one NAME");
    return false;
  }
  const char *word = argument_at(arguments, 0);
  for (unsigned i = 0; i < G_N_ELEMENTS(folders); i++) {
    g_autofree char *name = cli_data_name(word, folders[i], ".yaml");
    g_autofree char *path = g_strconcat(folders[i], name, ".yaml", NULL);
    if (data_exists(path)) return cli_show_data(cli, path, name, error);
  }
  g_auto(GStrv) names = gpu_names();
  const char *near = nearest_name(word, (const char *const *)names);
  g_autofree char *hint = near ? g_strdup_printf("did you mean `%s`?", near)
                               : g_strdup("adlgen gpus lists GPUs and their architectures");
  error_set(error, ERROR_INPUT, NULL, "unknown-gpu", hint, "no description is called `%.80s`", word);
  return false;
}

/* ---- check ---- */

/* A bare name without .yaml would be taken for that of a known GPU; here it is always a file. */
static char *as_path(const char *word)
{
  return strchr(word, '/') || g_str_has_suffix(word, ".yaml") ? g_strdup(word)
                                                              : g_strconcat("./", word, NULL);
}

static json_t *check_result(const char *file, const Gpu *gpu, const GError *error)
{
  json_t *result = json_pack("{s:s, s:b}", "file", file, "ok", gpu != NULL);
  json_t *errors = json_array();
  if (gpu)
    json_object_update_new(
        result, json_pack("{s:s, s:s, s:s}", "name", gpu->name, "arch", gpu->arch, "target", gpu->target));
  else {
    json_decref(errors);
    json_t *whole = error_to_json(error);
    errors = json_incref(json_object_get(whole, "errors"));
    json_decref(whole);
  }
  json_object_set_new(result, "errors", errors);
  return result;
}

static bool check_files(const Cli *cli, const Arguments *arguments, GError **error)
{
  unsigned n = argument_count(arguments);
  if (n == 0) {
    error_set(error, ERROR_USAGE, NULL, "missing-argument", NULL,
              "adlgen gpus check needs at least one FILE.yaml");
    return false;
  }
  json_t *files = json_array();
  for (unsigned i = 0; i < n; i++) {
    const char *file = argument_at(arguments, i);
    g_autofree char *path = as_path(file);
    g_autoptr(GError) fault = NULL;
    g_autoptr(Gpu) gpu = gpu_load_description(path, &fault);
    json_array_append_new(files, check_result(file, gpu, fault));
    if (!gpu) *cli->exit_code = MAX(*cli->exit_code, error_exit_code(fault));
    if (cli->json) continue;
    if (gpu && g_str_equal(gpu->name, gpu->arch))
      printf("%s: ok, architecture %s (%s)\n", file, gpu->arch, gpu->target);
    else if (gpu)
      printf("%s: ok, %s (%s, %s)\n", file, gpu->name, gpu->arch, gpu->target);
    else
      cli_print_error(cli, fault);
  }
  if (cli->json)
    cli_print_json(json_pack("{s:i, s:o}", "version", 1, "files", files));
  else
    json_decref(files);
  return true;
}

bool command_gpus(const Cli *cli, const Arguments *arguments, GError **error)
{
  const char *action = argument_action(arguments);
  if (!action) return list_gpus(cli, error);
  if (!strcmp(action, "text")) return print_text(cli, arguments, error);
  if (!strcmp(action, "rules")) return print_rules(cli, arguments, error);
  return !strcmp(action, "show") ? show_gpu(cli, arguments, error) : check_files(cli, arguments, error);
}
