/* docs/performance.md and its charts, from the results that are committed. */
#include "measure/report.h"
#include "measure/case_run.h"
#include "measure/chart.h"
#include <math.h>
#include <string.h>

typedef struct Report {
  char *docs;
  GString *page;
  json_t *files; /* that were written */
} Report;

static const char *text_of(const json_t *object, const char *key)
{
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "unknown";
}

static double number_of(const json_t *object, const char *key)
{
  return json_number_value(json_object_get(object, key));
}

static bool write_file(const Report *report, const char *name, const char *text, GError **error)
{
  g_autofree char *path = g_build_filename(report->docs, name, NULL);
  GError *cause = NULL;
  if (g_file_set_contents(path, text, -1, &cause)) {
    json_array_append_new(report->files, json_string(path));
    return true;
  }
  error_set(error, ERROR_INPUT, NULL, "unwritable", NULL, "cannot write %s: %s", path, cause->message);
  g_error_free(cause);
  return false;
}

/* ---- one result ---- */

static void add_plugins(GString *page, const json_t *versions)
{
  size_t i;
  json_t *plugin;
  json_array_foreach(json_object_get(versions, "plugins"), i, plugin)
      g_string_append_printf(page, ", %s (%s)", text_of(plugin, "name"), text_of(plugin, "library"));
}

static void add_machine(GString *page, const char *name, const json_t *result)
{
  const json_t *machine = json_object_get(result, "machine"), *versions = json_object_get(result, "versions");
  const json_t *ceilings = json_object_get(result, "ceilings"), *method = json_object_get(result, "method");
  static const char *const families[] = {"warp_mma", "warpgroup_mma"};
  g_string_append_printf(page, "\n## %s\n\n", name);
  g_string_append_printf(page, "%s on one %s (%d SMs, driver %s), for `%s`; ptxas %s",
                         text_of(result, "date"), text_of(machine, "name"), (int)number_of(machine, "sms"),
                         text_of(machine, "driver"), text_of(result, "gpu"), text_of(versions, "ptxas"));
  if (json_is_string(json_object_get(versions, "cublaslt")))
    g_string_append_printf(page, ", cuBLASLt %s (workspace 32 MiB)", text_of(versions, "cublaslt"));
  add_plugins(page, versions);
  g_string_append_printf(page, "; %d rounds. From `bench/results/%s.json`.\n\n",
                         (int)number_of(method, "rounds"), name);
  g_string_append_printf(page, "Ceilings of that run: read %.0f GB/s, copy %.0f GB/s",
                         number_of(ceilings, "read") * 1e-9, number_of(ceilings, "copy") * 1e-9);
  for (unsigned i = 0; i < G_N_ELEMENTS(families); i++) {
    const char *type;
    json_t *rate;
    json_object_foreach(json_object_get(ceilings, families[i]), type, rate) g_string_append_printf(
        page, ", %s %s %.0f TFLOP/s", families[i], type, json_number_value(rate) * 1e-12);
  }
  g_string_append(page, ".\n");
}

static void add_classes(GString *page, const json_t *result)
{
  size_t i;
  json_t *class_;
  g_string_append(page, "\n| class | mode | cases | roof / time | best peer / ours | worst | worst case |\n"
                        "|---|---|---|---|---|---|---|\n");
  json_array_foreach(json_object_get(result, "classes"), i, class_)
  {
    g_string_append_printf(page, "| %s | %s | %d | %.3f |", text_of(class_, "class"), text_of(class_, "mode"),
                           (int)number_of(class_, "cases"), number_of(class_, "roof_fraction"));
    if (json_object_get(class_, "peer_ratio"))
      g_string_append_printf(page, " %.3f | %.3f | %s |\n", number_of(class_, "peer_ratio"),
                             number_of(class_, "worst_ratio"), text_of(class_, "worst_case"));
    else
      g_string_append(page, " | | |\n");
  }
}

static void add_case(GString *page, const json_t *c, const char *mode)
{
  const json_t *ours = bench_ours(c, mode), *peer = bench_best_peer(c, mode);
  if (!ours) return;
  double us = number_of(ours, "us"), flops = number_of(c, "flops");
  g_string_append_printf(page, "| %s | %s | %.2f | ", text_of(c, "name"), mode, us);
  if (flops > 0)
    g_string_append_printf(page, "%.1f TFLOP/s", flops / us * 1e-6);
  else
    g_string_append_printf(page, "%.0f GB/s", number_of(c, "bytes") / us * 1e-3);
  g_string_append_printf(page, " | %.1f %% | %.3f | ", number_of(ours, "spread") * 100,
                         number_of(ours, "roof_fraction"));
  if (peer)
    g_string_append_printf(page, "%.2f (%s) | %.3f |\n", number_of(peer, "us"), text_of(peer, "candidate"),
                           number_of(peer, "ratio"));
  else
    g_string_append(page, " | |\n");
}

static void add_cases(GString *page, const json_t *result)
{
  size_t i;
  json_t *c;
  g_string_append(page, "\n| case | mode | us | rate | spread | roof / time | best peer, us | peer / ours |\n"
                        "|---|---|---|---|---|---|---|---|\n");
  json_array_foreach(json_object_get(result, "cases"), i, c) for (unsigned mode = 0; mode < BENCH_MODE_COUNT;
                                                                  mode++)
      add_case(page, c, bench_mode_name(mode));
}

/* ---- peers beside each other ---- */

/* Peers are told apart by what their names begin with, before '#' or ':'. */
static char *family_of(const char *candidate)
{
  return g_strndup(candidate, strcspn(candidate, "#:"));
}

static GPtrArray *families_of(const json_t *result)
{
  GPtrArray *families = g_ptr_array_new_with_free_func(g_free);
  const json_t *versions = json_object_get(result, "versions");
  if (json_is_string(json_object_get(versions, "cublaslt"))) g_ptr_array_add(families, g_strdup("cublaslt"));
  size_t i;
  json_t *plugin;
  json_array_foreach(json_object_get(versions, "plugins"), i, plugin)
      g_ptr_array_add(families, g_strdup(text_of(plugin, "name")));
  return families;
}

/* The fastest candidate of a family in a mode of a case; NULL: none. */
static const json_t *best_of_family(const json_t *c, const char *mode, const char *family)
{
  const json_t *best = NULL;
  size_t i;
  json_t *time, *times = json_object_get(json_object_get(json_object_get(c, "modes"), mode), "times");
  json_array_foreach(times, i, time)
  {
    const char *name = text_of(time, "candidate");
    g_autofree char *own = family_of(name);
    if (!bench_is_peer(bench_kind_of(c, name)) || strcmp(own, family) != 0) continue;
    if (!best || number_of(time, "us") < number_of(best, "us")) best = time;
  }
  return best;
}

static void add_beside(GString *page, const json_t *c, const char *mode, const GPtrArray *families)
{
  const json_t *ours = bench_ours(c, mode);
  if (!ours) return;
  g_string_append_printf(page, "| %s | %s | %.2f |", text_of(c, "name"), mode, number_of(ours, "us"));
  for (unsigned i = 0; i < families->len; i++) {
    const json_t *time = best_of_family(c, mode, families->pdata[i]);
    if (!time) {
      g_string_append(page, " | |");
      continue;
    }
    const char *variant = text_of(time, "candidate") + strlen(families->pdata[i]);
    g_string_append_printf(page, " %.2f (%s) | %.3f |", number_of(time, "us"), variant + (*variant == ':'),
                           number_of(time, "ratio"));
  }
  g_string_append_c(page, '\n');
}

/* A table of all peers, where there are several. */
static void add_peers(GString *page, const json_t *result)
{
  g_autoptr(GPtrArray) families = families_of(result);
  size_t i;
  json_t *c;
  if (families->len < 2) return;
  g_string_append(page, "\nEach peer's fastest, us, and its time over ours:\n\n| case | mode | ours |");
  for (unsigned j = 0; j < families->len; j++)
    g_string_append_printf(page, " %s | / ours |", (char *)families->pdata[j]);
  g_string_append(page, "\n|---|---|---|");
  for (unsigned j = 0; j < families->len; j++)
    g_string_append(page, "---|---|");
  g_string_append_c(page, '\n');
  json_array_foreach(json_object_get(result, "cases"), i, c)
  {
    for (unsigned mode = 0; mode < BENCH_MODE_COUNT; mode++)
      add_beside(page, c, bench_mode_name(mode), families);
  }
}

static void add_failures(GString *page, const json_t *result)
{
  size_t i, j;
  json_t *c, *failure;
  json_array_foreach(json_object_get(result, "cases"), i, c)
      json_array_foreach(json_object_get(c, "failures"), j, failure)
          g_string_append_printf(page, "\nNot measured: %s, %s: %s\n", text_of(c, "name"),
                                 text_of(failure, "candidate"), text_of(failure, "message"));
}

static bool add_chart(Report *report, const char *name, const char *kind, const char *about, char *chart,
                      GError **error)
{
  if (!chart) return true;
  g_autofree char *file = g_strdup_printf("performance-%s-%s.svg", name, kind);
  g_string_append_printf(report->page, "\n![%s](%s)\n", about, file);
  bool ok = write_file(report, file, chart, error);
  g_free(chart);
  return ok;
}

static json_t *load_result(const char *folder, const char *file, GError **error)
{
  g_autofree char *path = g_build_filename(folder, file, NULL);
  json_error_t fault;
  json_t *result = json_load_file(path, 0, &fault);
  if (result && json_integer_value(json_object_get(result, "version")) == 1) return result;
  error_set(error, ERROR_INPUT, NULL, "bad-result", NULL, "%s is no result of adlgen bench%s%s", path,
            result ? "" : ": ", result ? "" : fault.text);
  json_decref(result);
  return NULL;
}

/* The least of a class's cases in a mode. */
static double worst_roof(const json_t *result, const char *class_, const char *mode)
{
  double worst = INFINITY;
  size_t i;
  json_t *c;
  json_array_foreach(json_object_get(result, "cases"), i, c)
  {
    const json_t *ours = strcmp(text_of(c, "class"), class_) ? NULL : bench_ours(c, mode);
    if (ours) worst = fmin(worst, number_of(ours, "roof_fraction"));
  }
  return worst;
}

/* A line a class: what is compared, over how many cases, the geometric mean and the worst. */
static void add_lines(GString *page, const char *name, const json_t *result)
{
  g_autoptr(GPtrArray) families = families_of(result);
  g_ptr_array_add(families, NULL);
  g_autofree char *peers = g_strjoinv(", ", (char **)families->pdata),
                  *best = g_strdup_printf("best of %s", peers);
  size_t i;
  json_t *class_;
  json_array_foreach(json_object_get(result, "classes"), i, class_)
  {
    bool compared = json_object_get(class_, "peer_ratio");
    const char *title = text_of(class_, "class"), *mode = text_of(class_, "mode");
    double worst = compared ? number_of(class_, "worst_ratio") : worst_roof(result, title, mode);
    g_autofree char *least =
        isinf(worst) ? g_strdup("") : g_strdup_printf("%.3f", worst); /* it names no case */
    g_string_append_printf(
        page, "| [%s](#%s) | %s | %s / ours, %s | %d | %.3f | %s | %s |\n", title, name,
        text_of(result, "gpu"), compared ? best : "roof", mode, (int)number_of(class_, "cases"),
        number_of(class_, compared ? "peer_ratio" : "roof_fraction"), least, text_of(result, "date"));
  }
}

static bool add_summary(Report *report, const char *folder, const GPtrArray *names, GError **error)
{
  g_string_append(
      report->page,
      "\nA line a class; above 1 the kernels of adlgen are the faster ones. Of peers the fastest kernel "
      "counts, timed in "
      "the same run;\nwhere there is none, the roof.\n\n"
      "| class | GPU | compared | cases | geometric mean | worst | date |\n|---|---|---|---|---|---|---|\n");
  for (unsigned i = 0; i < names->len; i++) {
    const char *file = names->pdata[i];
    g_autofree char *name = g_strndup(file, strlen(file) - strlen(".json"));
    json_t *result = load_result(folder, file, error);
    if (!result) return false;
    add_lines(report->page, name, result);
    json_decref(result);
  }
  return true;
}

static bool add_result(Report *report, const char *folder, const char *file, GError **error)
{
  g_autofree char *name = g_strndup(file, strlen(file) - strlen(".json"));
  json_t *result = load_result(folder, file, error);
  if (!result) return false;
  add_machine(report->page, name, result);
  add_classes(report->page, result);
  bool ok = add_chart(report, name, "bars", "best peer's time over ours", bench_chart_bars(result, "cold"),
                      error) &&
            add_chart(report, name, "roofline", "roofline", bench_chart_roofline(result, "cold"), error);
  add_cases(report->page, result);
  add_peers(report->page, result);
  add_failures(report->page, result);
  json_decref(result);
  return ok;
}

/* ---- all ---- */

static int compare_names(const void *a, const void *b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static GPtrArray *list_results(const char *folder)
{
  GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
  g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
  const char *name;
  while (dir && (name = g_dir_read_name(dir)))
    if (g_str_has_suffix(name, ".json")) g_ptr_array_add(names, g_strdup(name));
  if (names->len) qsort(names->pdata, names->len, sizeof(char *), compare_names);
  return names;
}

bool bench_report(const char *root, json_t *files, GError **error)
{
  static const char head[] = "# Performance\n\nWritten by `adlgen bench report` from the results under "
                             "`bench/results`; [bench.md](bench.md) "
                             "describes the method.\nRatios were taken in one run each, interleaved; "
                             "absolute times are for orientation. roof is "
                             "max(bytes / read ceiling,\nFLOP / tensor ceiling) + 3 us; above 1 means that "
                             "outputs were still in L2 when the "
                             "kernel ended.\n";
  g_autofree char *folder = g_build_filename(root ? root : ".", "bench", "results", NULL);
  g_autofree char *docs = g_build_filename(root ? root : ".", "docs", NULL);
  g_autoptr(GPtrArray) names = list_results(folder);
  if (!names->len) {
    error_set(error, ERROR_INPUT, NULL, "no-results", "adlgen bench --out FILE writes one",
              "%s holds no results", folder);
    return false;
  }
  Report report = {.docs = docs, .page = g_string_new(head), .files = files};
  bool ok = add_summary(&report, folder, names, error);
  for (unsigned i = 0; ok && i < names->len; i++)
    ok = add_result(&report, folder, names->pdata[i], error);
  ok = ok && write_file(&report, "performance.md", report.page->str, error);
  g_string_free(report.page, TRUE);
  return ok;
}
