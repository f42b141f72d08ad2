/* Descriptions for people (aligned text) and for programs (JSON). */
#include "adl/build.h"
#include "adl/quantity.h"
#include <string.h>

/* ---- JSON ---- */

static json_t *json_number_or_null(double value)
{
  if (!fact_known(value)) return json_null();
  return value == (double)(int64_t)value ? json_integer((json_int_t)value) : json_real(value);
}

static json_t *json_string_or_null(const char *text)
{
  return text ? json_string(text) : json_null();
}

static json_t *fact_value(const Entry *entry)
{
  if (entry->unknown) return json_null();
  if (entry->kind == RULE_FLAG) return json_boolean(entry->number != 0);
  if (entry->text) return json_string(entry->text);
  if (!entry->texts && !entry->numbers) return json_number_or_null(entry->number);
  json_t *list = json_array();
  for (unsigned i = 0; i < entry->n; i++)
    json_array_append_new(list, entry->texts ? json_string(entry->texts[i])
                                             : json_number_or_null(entry->numbers[i]));
  return list;
}

static json_t *facts_to_json(const Gpu *gpu)
{
  const GPtrArray *entries = gpu_private(gpu)->entries;
  json_t *facts = json_array();
  for (guint i = 0; i < entries->len; i++) {
    const Entry *entry = entries->pdata[i];
    json_array_append_new(facts, json_pack("{s:s, s:o, s:o, s:o, s:b, s:o}", "path", entry->path, "value",
                                           fact_value(entry), "unit", json_string_or_null(entry->unit),
                                           "source", json_string_or_null(entry->source), "guess",
                                           (int)entry->guess, "effect", json_string_or_null(entry->effect)));
  }
  return facts;
}

static json_t *facts_followed(const CostFacts *facts)
{
  json_t *object = json_object();
  for (unsigned i = 0; i < facts->n; i++)
    json_object_set_new(object, facts->facts[i].path, json_real(facts->facts[i].at));
  return object;
}

static json_t *model_to_json(const CostModel *model)
{
  json_t *constants = json_array();
  for (unsigned i = 0; i < model->n_constants; i++) {
    const CostConstant *constant = &model->constants[i];
    json_t *object = json_pack("{s:s, s:s, s:f, s:f, s:s, s:s}", "name", constant->name, "kind",
                               constant->kind, "value", constant->value, "fitted", constant->fitted, "unit",
                               constant->unit, "meaning", constant->meaning);
    json_object_set_new(object, "grows_with", facts_followed(&constant->grows));
    json_object_set_new(object, "shrinks_with", facts_followed(&constant->shrinks));
    json_object_set_new(object, "run", json_string_or_null(constant->run));
    json_object_set_new(object, "date", json_string_or_null(constant->date));
    json_object_set_new(object, "source", json_string_or_null(constant->source));
    json_object_set_new(object, "guess", json_boolean(constant->guess));
    json_array_append_new(constants, object);
  }
  return json_pack("{s:s, s:s, s:o, s:o, s:s, s:o}", "name", model->name, "file", model->file, "gpu",
                   json_string_or_null(model->gpu), "guess", json_string_or_null(model->guess), "hash",
                   model->hash, "constants", constants);
}

static json_t *product_to_json(const GpuProduct *product)
{
  json_t *n = json_array();
  for (unsigned i = 0; i < product->n_count; i++)
    json_array_append_new(n, json_integer(product->n[i]));
  return json_pack("{s:s, s:s, s:s, s:s, s:i, s:o, s:i, s:o, s:o, s:o}", "family", product->family, "a",
                   number_name(product->a), "b", number_name(product->b), "acc", number_name(product->acc),
                   "m", (int)product->m, "n", n, "k", (int)product->k, "flop_per_clock_per_sm",
                   json_number_or_null(product->flop_per_clock_per_sm), "latency_cycles",
                   json_number_or_null(product->latency_cycles), "widened_to",
                   json_string_or_null(product->widened ? number_name(product->through) : NULL));
}

static json_t *families_to_json(const Gpu *gpu)
{
  json_t *families = json_array();
  for (unsigned i = 0; i < schema_n_sections; i++)
    if (schema_sections[i].is_family && gpu_has(gpu, schema_sections[i].name))
      json_array_append_new(families, json_string(schema_sections[i].name));
  return families;
}

static const NumberType peak_types[] = {NUMBER_F64,  NUMBER_F32,  NUMBER_TF32, NUMBER_F16,
                                        NUMBER_BF16, NUMBER_E4M3, NUMBER_E5M2, NUMBER_S8};

static json_t *peaks_to_json(const Gpu *gpu)
{
  json_t *peaks = json_object();
  for (unsigned i = 0; i < G_N_ELEMENTS(peak_types); i++)
    if (fact_known(gpu_peak(gpu, peak_types[i])))
      json_object_set_new(peaks, number_name(peak_types[i]), json_real(gpu_peak(gpu, peak_types[i])));
  return peaks;
}

/* What `gpus` lists of each GPU, and `gpus show` begins with. */
static json_t *summary(const Gpu *gpu)
{
  json_t *object = json_object();
  json_object_set_new(object, "name", json_string(gpu->name));
  json_object_set_new(object, "product", json_string(gpu->product));
  json_object_set_new(object, "arch", json_string_or_null(gpu->arch));
  json_object_set_new(object, "target", json_string(gpu->target));
  json_object_set_new(object, "ptx", json_sprintf("%u.%u", gpu->ptx_version / 10, gpu->ptx_version % 10));
  json_object_set_new(object, "file", json_string(gpu->file));
  json_object_set_new(object, "hash", json_string(gpu->hash));
  json_object_set_new(object, "sms", json_integer(gpu->sm_count));
  json_object_set_new(object, "clock_mhz", json_number_or_null(gpu->clock_boost_mhz));
  json_object_set_new(object, "memory_bytes", json_number_or_null(gpu->memory_bytes));
  json_object_set_new(object, "memory_bandwidth", json_number_or_null(gpu->memory_bandwidth));
  json_object_set_new(object, "l2_bytes", json_number_or_null(gpu->l2_bytes));
  json_object_set_new(object, "shared_per_block", json_integer(gpu->shared_per_block));
  json_object_set_new(object, "families", families_to_json(gpu));
  json_object_set_new(object, "peaks", peaks_to_json(gpu));
  return object;
}

json_t *gpu_to_json(const Gpu *gpu)
{
  json_t *object = json_pack("{s:i}", "version", 1), *rest = summary(gpu), *products = json_array();
  json_object_update(object, rest);
  json_decref(rest);
  for (unsigned i = 0; i < gpu->n_products; i++)
    json_array_append_new(products, product_to_json(&gpu->products[i]));
  json_object_set_new(object, "products", products);
  json_object_set_new(object, "facts", facts_to_json(gpu));
  json_object_set_new(object, "model", model_to_json(gpu->model));
  return object;
}

json_t *gpus_to_json(GError **error)
{
  g_auto(GStrv) names = gpu_names();
  json_t *list = json_array();
  for (char **name = names; *name; name++) {
    g_autoptr(Gpu) gpu = gpu_load(*name, error);
    if (!gpu) {
      json_decref(list);
      return NULL;
    }
    json_array_append_new(list, summary(gpu));
  }
  return json_pack("{s:i, s:o}", "version", 1, "gpus", list);
}

/* ---- text ---- */

/* Rows of cells, printed with every column as wide as its widest cell; a very wide cell just pushes its row.
 */
#define WIDEST 32
typedef struct {
  GPtrArray *cells; /* of char* */
  unsigned columns;
} Table;

static void table_add(Table *table, char *cell)
{
  g_ptr_array_add(table->cells, cell);
}

static char *table_to_text(Table *table, const char *indent)
{
  GString *text = g_string_new(NULL);
  g_autofree unsigned *width = g_new0(unsigned, table->columns);
  for (guint i = 0; i < table->cells->len; i++)
    width[i % table->columns] =
        MAX(width[i % table->columns], (unsigned)g_utf8_strlen(table->cells->pdata[i], -1));
  for (guint i = 0; i < table->cells->len; i++) {
    unsigned column = i % table->columns;
    const char *cell = table->cells->pdata[i];
    if (column == 0) g_string_append(text, indent);
    g_string_append(text, cell);
    if (column + 1 < table->columns)
      g_string_append_printf(text, "%*s", MAX(2, (int)width[column] - (int)g_utf8_strlen(cell, -1) + 2), "");
    else
      g_string_append_c(text, '\n');
  }
  g_ptr_array_unref(table->cells);
  return g_string_free(text, FALSE);
}

static Table table_new(unsigned columns)
{
  return (Table){g_ptr_array_new_with_free_func(g_free), columns};
}

static char *quantity_or_unknown(double value, const char *unit)
{
  return fact_known(value) ? quantity_text(value, unit) : g_strdup("unknown");
}

static void add_summary_row(Table *table, const Gpu *gpu)
{
  table_add(table, g_strdup(gpu->name));
  table_add(table, g_strdup(gpu->target));
  table_add(table, g_strdup_printf("%u", gpu->sm_count));
  table_add(table, quantity_or_unknown(gpu->clock_boost_mhz, "MHz"));
  table_add(table, quantity_or_unknown(gpu->memory_bytes, "B"));
  table_add(table, quantity_or_unknown(gpu->memory_bandwidth, "B/s"));
  double peak = gpu_peak(gpu, NUMBER_BF16);
  table_add(table, fact_known(peak) ? g_strdup_printf("%.0f TFLOP/s", peak / 1e12) : g_strdup("unknown"));
  table_add(table, g_strdup(gpu->product));
}

char *gpus_to_text(GError **error)
{
  static const char *const heads[] = {"name",   "target",    "SMs",  "clock",
                                      "memory", "bandwidth", "bf16", "product"};
  g_auto(GStrv) names = gpu_names();
  Table table = table_new(G_N_ELEMENTS(heads));
  for (unsigned i = 0; i < G_N_ELEMENTS(heads); i++)
    table_add(&table, g_strdup(heads[i]));
  for (char **name = names; *name; name++) {
    g_autoptr(Gpu) gpu = gpu_load(*name, error);
    if (!gpu) {
      g_ptr_array_unref(table.cells);
      return NULL;
    }
    add_summary_row(&table, gpu);
  }
  return table_to_text(&table, "");
}

static char *entry_text(const Entry *entry)
{
  if (entry->unknown) return g_strdup("unknown");
  if (entry->kind == RULE_FLAG) return g_strdup(entry->number != 0 ? "true" : "false");
  if (entry->kind == RULE_VERSION) return g_strdup_printf("%.1f", entry->number / 10);
  if (entry->text) return g_strdup(entry->text);
  if (!entry->texts && !entry->numbers) return quantity_text(entry->number, entry->unit);
  g_autoptr(GString) text = g_string_new(NULL);
  for (unsigned i = 0; i < entry->n; i++) {
    if (i) g_string_append(text, entry->texts ? ", " : " ");
    if (i == 4 && entry->n > 8 && !entry->texts) { /* a long row of numbers */
      g_string_append(text, "... ");
      i = entry->n - 1;
    }
    if (entry->texts)
      g_string_append(text, entry->texts[i]);
    else
      g_string_append_printf(text, "%.10g", entry->numbers[i]);
  }
  if (entry->numbers && entry->unit) g_string_append_printf(text, " %s", entry->unit);
  return g_string_free(g_steal_pointer(&text), FALSE);
}

static char *source_cell(const Entry *entry)
{
  if (!entry->source || entry->unknown) return g_strdup("");
  return entry->guess ? g_strdup_printf("guess: %s", entry->source) : g_strdup(entry->source);
}

static void append_facts(GString *text, const Gpu *gpu)
{
  const GPtrArray *entries = gpu_private(gpu)->entries;
  Table table = table_new(3);
  for (guint i = 0; i < entries->len; i++) {
    const Entry *entry = entries->pdata[i];
    table_add(&table, g_strdup(entry->path));
    table_add(&table, entry_text(entry));
    bool is_number = entry->kind == RULE_NUMBER || entry->kind == RULE_NUMBERS || entry->kind == RULE_RANGES;
    table_add(&table, is_number ? source_cell(entry) : g_strdup(""));
  }
  g_autofree char *rows = table_to_text(&table, "  ");
  g_string_append(text, rows);
}

static void append_peaks(GString *text, const Gpu *gpu)
{
  for (unsigned i = 0; i < G_N_ELEMENTS(peak_types); i++) {
    double peak = gpu_peak(gpu, peak_types[i]);
    if (fact_known(peak)) g_string_append_printf(text, " %s %.4g", number_name(peak_types[i]), peak / 1e12);
  }
  g_string_append_c(text, '\n');
}

/* Trailing blanks are of no use to a diff. */
static char *without_trailing_blanks(const char *text)
{
  g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
  for (char **line = lines; *line; line++)
    g_strchomp(*line);
  return g_strjoinv("\n", lines);
}

char *gpu_to_text(const Gpu *gpu)
{
  g_autoptr(GString) text = g_string_new(NULL);
  g_string_append_printf(text, "%s: %s\n", gpu->name, gpu->product);
  g_string_append_printf(text, "architecture %s, target %s, PTX %.1f\n", gpu->arch, gpu->target,
                         gpu->ptx_version / 10.0);
  g_string_append_printf(text, "read from %s, facts %.16s\n", gpu->file, gpu->hash);
  g_string_append(text, "dense peaks derived from rates, TFLOP/s:");
  append_peaks(text, gpu);
  g_string_append(text, "families:");
  for (unsigned i = 0; i < schema_n_sections; i++)
    if (schema_sections[i].is_family && gpu_has(gpu, schema_sections[i].name))
      g_string_append_printf(text, " %s", schema_sections[i].name);
  g_string_append(text, "\n\n");
  append_facts(text, gpu);
  return without_trailing_blanks(text->str);
}
