#include "cli/pass_log.h"
#include "generator/fusion/fusion.h"
#include <string.h>

typedef struct PassTime {
  double seconds, longest;
  unsigned runs;
  size_t arena_bytes; /* largest */
} PassTime;

struct PassLog {
  const char *const *print_after;
  bool print_all;
  GPtrArray *dumps;
  PassTime *times; /* one a pass */
  unsigned n;
};

GPtrArray *pass_log_names(const char *what)
{
  unsigned n_passes = 0, n_rewrites = 0;
  const IrPass *passes = ir_pass_list(&n_passes);
  const FusionRewrite *rewrites = fusion_rewrites(&n_rewrites);
  bool prints = !strcmp(what, "print-after");
  GPtrArray *names = g_ptr_array_new();
  for (unsigned i = 0; i < GRAPH_PASS_COUNT && prints; i++)
    g_ptr_array_add(names, (char *)graph_passes[i].name);
  for (unsigned i = 0; i < n_rewrites && (prints || !strcmp(what, "skip")); i++)
    g_ptr_array_add(names, (char *)rewrites[i].name);
  for (unsigned i = 0; i < n_passes; i++)
    g_ptr_array_add(names, (char *)passes[i].name);
  return names;
}

bool pass_log_known(const char *what, const char *pass, GError **error)
{
  g_autoptr(GPtrArray) names = pass_log_names(what);
  g_ptr_array_add(names, NULL);
  if (g_strv_contains((const char *const *)names->pdata, pass)) return true;
  const char *near = nearest_name(pass, (const char *const *)names->pdata);
  g_autofree char *list = g_strjoinv(", ", (char **)names->pdata);
  g_autofree char *hint =
      near ? g_strdup_printf("did you mean %s?", near) : g_strdup_printf("one of: %s", list);
  error_set(error, ERROR_USAGE, NULL, "unknown-pass", hint, "--%s: there is no pass %s", what, pass);
  return false;
}

static void dump_free(void *memory)
{
  PassDump *dump = memory;
  g_free(dump->file);
  g_free(dump->text);
  g_free(dump);
}

PassLog *pass_log_new(const char *const *print_after, GError **error)
{
  bool all = g_strv_contains(print_after, "all");
  for (const char *const *name = print_after; *name; name++)
    if (strcmp(*name, "all") && !pass_log_known("print-after", *name, error)) return NULL;
  PassLog *log = g_new0(PassLog, 1);
  log->print_after = print_after;
  log->print_all = all;
  log->dumps = g_ptr_array_new_with_free_func(dump_free);
  ir_pass_list(&log->n);
  log->times = g_new0(PassTime, log->n + 1);
  return log;
}

void pass_log_free(PassLog *log)
{
  if (!log) return;
  g_ptr_array_unref(log->dumps);
  g_free(log->times);
  g_free(log);
}

static bool is_wanted(const PassLog *log, const char *pass)
{
  return log->print_all || g_strv_contains(log->print_after, pass);
}

/* Takes both. */
static void add_dump(PassLog *log, char *file, char *text)
{
  PassDump *dump = g_new0(PassDump, 1);
  dump->file = file;
  dump->text = text;
  g_ptr_array_add(log->dumps, dump);
}

void pass_log_report(const char *kernel, const IrPassReport *report, IrModule *module, void *data)
{
  PassLog *log = data;
  g_assert(report->index >= 1 && report->index <= log->n);
  PassTime *time = &log->times[report->index - 1];
  time->seconds += report->seconds;
  time->longest = MAX(time->longest, report->seconds);
  time->arena_bytes = MAX(time->arena_bytes, report->arena_bytes);
  time->runs++;
  if (!is_wanted(log, report->pass->name)) return;
  add_dump(log, g_strdup_printf("%s.%02u-%s.ir", kernel, report->index, report->pass->name),
           ir_print(module));
}

/* Passes of the graph are counted through: first those of reading. Graphs with loops are rewritten part by part. */
static void report_graph(PassLog *log, unsigned index, const char *pass, char *text)
{
  g_autofree char *name = g_strdup_printf("graph.%02u-%s.", index + 1, pass);
  unsigned part = 1;
  for (guint i = 0; i < log->dumps->len; i++)
    part += g_str_has_prefix(((const PassDump *)log->dumps->pdata[i])->file, name);
  add_dump(log, part > 1 ? g_strdup_printf("%s%u.txt", name, part) : g_strdup_printf("%stxt", name), text);
}

void pass_log_report_reading(unsigned pass, const Graph *graph, void *data)
{
  PassLog *log = data;
  if (pass == GRAPH_PASS_READ) g_ptr_array_set_size(log->dumps, 0);
  if (is_wanted(log, graph_passes[pass].name))
    report_graph(log, pass, graph_passes[pass].name, graph_dump(graph));
}

void pass_log_report_rewrite(unsigned rewrite, const char *text, void *data)
{
  PassLog *log = data;
  unsigned n = 0;
  const char *name = fusion_rewrites(&n)[rewrite].name;
  if (is_wanted(log, name)) report_graph(log, GRAPH_PASS_COUNT + rewrite, name, g_strdup(text));
}

GPtrArray *pass_log_take_dumps(PassLog *log)
{
  GPtrArray *dumps = log->dumps;
  log->dumps = g_ptr_array_new_with_free_func(dump_free);
  return dumps;
}

void pass_log_print(const PassLog *log, const Cli *cli)
{
  unsigned n = 0;
  const IrPass *passes = ir_pass_list(&n);
  g_autoptr(Table) table =
      table_new((const char *[]){"pass", ">kernels", ">total ms", ">longest ms", ">arena KiB", NULL});
  double sum = 0;
  for (unsigned i = 0; i < n; i++) {
    const PassTime *time = &log->times[i];
    if (!time->runs) continue;
    g_autofree char *runs = g_strdup_printf("%u", time->runs);
    g_autofree char *total = g_strdup_printf("%.3f", time->seconds * 1e3);
    g_autofree char *longest = g_strdup_printf("%.3f", time->longest * 1e3);
    g_autofree char *arena = g_strdup_printf("%zu", time->arena_bytes >> 10);
    table_row(table, passes[i].name, runs, total, longest, arena, NULL);
    sum += time->seconds;
  }
  g_autofree char *total = g_strdup_printf("%.3f", sum * 1e3);
  table_row(table, "all", "", total, "", "", NULL);
  putchar('\n');
  table_print(table, cli);
}

json_t *pass_log_json(const PassLog *log)
{
  unsigned n = 0;
  const IrPass *passes = ir_pass_list(&n);
  json_t *list = json_array();
  for (unsigned i = 0; i < n; i++) {
    const PassTime *time = &log->times[i];
    if (!time->runs) continue;
    json_array_append_new(list, json_pack("{s:s, s:i, s:f, s:f, s:I}", "pass", passes[i].name, "kernels",
                                          (int)time->runs, "seconds", time->seconds, "longest", time->longest,
                                          "arena_bytes", (json_int_t)time->arena_bytes));
  }
  return list;
}
