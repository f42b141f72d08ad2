/* adlgen bench: how fast kernels are on the GPU of this machine, beside competitors and the machine's
 * ceilings. */
#include "base/version.h"
#include "cli/accumulate_option.h"
#include "cli/assembler_option.h"
#include "cli/cli.h"
#include "cli/profile_table.h"
#include "cli/tuned_option.h"
#include "execute/data.h"
#include "measure/chart.h"
#include "measure/kernel_times.h"
#include "measure/plugin.h"
#include "measure/report.h"
#include "measure/session.h"
#include "measure/suite.h"
#include <string.h>

static const char *const mode_choices[] = {"cold", "warm", "sustained", "dirty", NULL};

const Option bench_options[] = {
    {.name = "gpu", .value = "GPU", .doc = "the GPU to compile for: a name or a YAML file"},
    {.name = "suite",
     .value = "SUITE",
     .doc = "the cases to run: a file, or the name of one that is built in"},
    {.name = "only", .value = "REGEX", .doc = "cases whose name matches"},
    {.name = "dim", .value = "NAME=VALUE", .repeated = true, .doc = "value of a symbolic dimension of GRAPH"},
    {.name = "fixed", .doc = "compiles every dimension as a constant; without, they stay run-time arguments"},
    {.name = "against",
     .value = "PEER",
     .list = true,
     .repeated = true,
     .doc = "what is measured in turn with ours: cublaslt, product (the graph's matrix product alone), or "
            "plugin:FILE, a library of adlgen/peer.h"},
    {.name = "peer-variants",
     .value = "REGEX",
     .doc = "of libraries only the variants whose name (\"cutlass:128x256_c21_pingpong\") matches"},
    {.name = "variant",
     .value = "[NAME:]KEY=VALUE,...",
     .repeated = true,
     .doc = "one more candidate: template parameters (bm=128), gpu=FILE, sms=N, fixed=1, or plan=DIR of a "
            "compiled "
            "graph"},
    {.name = "sms", .value = "N", .doc = "SMs that our own kernels may use at most; default: all of the GPU"},
    OPTION_TUNED,
    OPTION_NO_TUNED,
    {.name = "mode",
     .value = "MODE",
     .choices = mode_choices,
     .list = true,
     .repeated = true,
     .doc = "state of the caches and the clock; default: cold"},
    {.name = "rounds", .value = "N", .doc = "times each candidate has its turn; default: 11"},
    {.name = "seconds", .value = "X", .doc = "sustained: how long one turn lasts; default: 3"},
    {.name = "profile",
     .value = "DIR",
     .doc = "after the timing each launch of ours by itself: a table, and DIR/CASE.svg"},
    {.name = "time-limit", .value = "SECONDS", .doc = "no case is begun after so many"},
    {.name = "one-algorithm",
     .doc = "of each competitor only what it offers first, not the best of all it offers"},
    {.name = "accumulate",
     .value = "MODE",
     .choices = accumulate_choices,
     .doc = "sums of products of 8-bit floats, ours and cublaslt's, where the graph does not say: exact "
            "(default, but of attention) "
            "or fast"},
    {.name = "cublaslt", .value = "FILE", .doc = "the library; default: searched for"},
    {.name = "device", .value = "N", .doc = "number of the GPU to run on; default: 0"},
    {.name = "out", .value = "FILE", .doc = "file that gets the result as JSON"},
    {.name = "root", .value = "DIR", .doc = "report: folder with bench/results and docs; default: here"},
    {.name = "ptxas", .value = "FILE", .doc = "the assembler to use; default: see adlgen doctor"},
    OPTION_ASSEMBLER,
    OPTION_NO_CACHE,
    {.name = "jobs", .value = "N", .doc = "threads to use; default: one per processor"},
    {.name = NULL},
};

typedef struct Bench {
  const Cli *cli;
  const Arguments *arguments;
  BenchSession session;
  Gpu *gpu;
  Assembler *assembler;
  TunedDatabase *tuned;
  GPtrArray *variants, *cases, *plugins;
  GRegex *peer_variants;
  bool cublaslt; /* is asked for */
  bool head_printed;
} Bench;

/* ---- what is asked for ---- */

static bool read_double(const Arguments *arguments, const char *option, double *value, GError **error)
{
  const char *text = argument_value(arguments, option);
  char *end = NULL;
  double number = text ? g_ascii_strtod(text, &end) : *value;
  if (text && (end == text || *end || !(number > 0))) {
    error_set(error, ERROR_USAGE, NULL, "bad-number", NULL, "--%s takes a positive number, not `%s`", option,
              text);
    return false;
  }
  *value = number;
  return true;
}

static bool read_peer_variants(Bench *bench, GError **error)
{
  const char *pattern = argument_value(bench->arguments, "peer-variants");
  GError *cause = NULL;
  if (pattern) bench->peer_variants = g_regex_new(pattern, 0, 0, &cause);
  bench->session.peer_variants = bench->peer_variants;
  if (!cause) return true;
  error_set(error, ERROR_USAGE, NULL, "bad-pattern", NULL, "--peer-variants: %s", cause->message);
  g_error_free(cause);
  return false;
}

static bool read_peers(Bench *bench, GError **error)
{
  if (!read_peer_variants(bench, error)) return false;
  for (const char *const *peer = argument_values(bench->arguments, "against"); *peer; peer++) {
    if (!strcmp(*peer, "cublaslt") || !strcmp(*peer, "product")) {
      bench->cublaslt |= !strcmp(*peer, "cublaslt");
      bench->session.product |= !strcmp(*peer, "product");
      continue;
    }
    if (!g_str_has_prefix(*peer, "plugin:") || !(*peer)[strlen("plugin:")]) {
      error_set(error, ERROR_USAGE, NULL, "wrong-value", "one of: cublaslt, product, plugin:FILE",
                "adlgen bench: --against cannot be \"%s\"", *peer);
      return false;
    }
    BenchPlugin *plugin = bench_plugin_open(*peer + strlen("plugin:"), error);
    if (!plugin) return false;
    g_ptr_array_add(bench->plugins, plugin);
  }
  bench->session.plugins = (BenchPlugin **)(void *)bench->plugins->pdata;
  bench->session.n_plugins = bench->plugins->len;
  return true;
}

static bool read_options(Bench *bench, GError **error)
{
  const Arguments *arguments = bench->arguments;
  BenchSession *s = &bench->session;
  s->timing = (BenchTimingOptions){.rounds = 11, .seconds = 3, .short_us = 20};
  s->fast_accumulation = accumulate_parse(argument_value(arguments, "accumulate")) == ACCUMULATE_FAST;
  s->all_algorithms = !argument_flag(arguments, "one-algorithm");
  s->fixed = argument_flag(arguments, "fixed");
  s->profile = argument_value(arguments, "profile") != NULL;
  for (const char *const *mode = argument_values(arguments, "mode"); *mode; mode++)
    for (unsigned i = 0; i < BENCH_MODE_COUNT; i++)
      if (!strcmp(*mode, mode_choices[i])) s->modes |= 1u << i;
  if (!s->modes) s->modes = 1u << BENCH_COLD;
  if (!argument_positive(arguments, "rounds", &s->timing.rounds, error) ||
      !read_double(arguments, "seconds", &s->timing.seconds, error) ||
      !read_double(arguments, "time-limit", &s->seconds, error) ||
      !argument_positive(arguments, "jobs", &s->threads, error))
    return false;
  if (!read_peers(bench, error)) return false;
  s->timing.rounds = MAX(s->timing.rounds, 1);
  s->ceiling_seconds = MIN(s->timing.seconds, 1);
  for (const char *const *text = argument_values(arguments, "variant"); *text; text++) {
    BenchVariant *variant = bench_variant_parse(*text, error);
    if (!variant) return false;
    g_ptr_array_add(bench->variants, variant);
  }
  s->variants = (BenchVariant **)(void *)bench->variants->pdata;
  s->n_variants = bench->variants->len;
  return true;
}

static bool read_case(Bench *bench, GError **error)
{
  static const char *const none[] = {NULL};
  g_autoptr(Source) source = source_load(argument_at(bench->arguments, 0), error);
  BenchCase *c =
      source ? bench_case_new(source, NULL, argument_values(bench->arguments, "dim"), none, error) : NULL;
  if (!c) return false;
  cli_warn(bench->cli, c->graph->warnings);
  bench->cases = g_ptr_array_new_with_free_func((GDestroyNotify)bench_case_free);
  g_ptr_array_add(bench->cases, c);
  return true;
}

static bool usage(const char *message, GError **error)
{
  error_set(error, ERROR_USAGE, NULL, "missing-argument", "adlgen bench --help lists its options", "%s",
            message);
  return false;
}

static bool read_work(Bench *bench, GError **error)
{
  const char *suite = argument_value(bench->arguments, "suite");
  if (!argument_flag(bench->arguments, "gpu")) return usage("adlgen bench needs --gpu", error);
  if (!suite == !argument_count(bench->arguments))
    return usage("adlgen bench takes a GRAPH or --suite", error);
  bench->gpu = gpu_load(argument_value(bench->arguments, "gpu"), error);
  if (!bench->gpu || !read_options(bench, error) ||
      !sms_of_options(bench->arguments, &bench->session.sms, error) ||
      !tuned_of_options(bench->arguments, bench->gpu, &bench->tuned, error))
    return false;
  bench->session.tuned = bench->tuned;
  for (unsigned i = 0; i < bench->variants->len; i++) {
    BenchVariant *variant = bench->variants->pdata[i];
    if (!variant->untuned) variant->tuned = bench->tuned;
  }
  if (!suite) return read_case(bench, error);
  bench->cases = bench_suite_load(suite, argument_value(bench->arguments, "only"), error);
  return bench->cases != NULL;
}

/* ---- output ---- */

static void print_line(const BenchLine *line, void *data)
{
  Bench *bench = data;
  const BenchCase *c = line->c;
  double us = line->timing->median;
  if (bench->cli->json) return;
  if (!bench->head_printed)
    printf("%-34s %-9s %-14s %10s %7s %8s %8s %6s %8s %6s\n", "case", "mode", "candidate", "us", "spread",
           "TFLOP/s", "GB/s", "roof", "/ ours", "MHz");
  bench->head_printed = true;
  g_autofree char *flops = c->flops > 0 ? g_strdup_printf("%.1f", c->flops / us * 1e-6) : g_strdup("");
  g_autofree char *clock =
      isfinite(line->timing->clock_mhz) ? g_strdup_printf("%.0f", line->timing->clock_mhz) : g_strdup("");
  printf("%-34s %-9s %-14s %10.2f %6.1f%% %8s %8.0f %6.3f %8.3f %6s\n", line->is_first ? c->name : "",
         line->mode, line->candidate, us, line->timing->spread * 100, flops, c->bytes / us * 1e-3,
         line->roof_us / us, line->ratio, clock);
  fflush(stdout);
}

static bool write_picture(const Bench *bench, const BenchCase *c, const json_t *profile, GError **error)
{
  const char *folder = argument_value(bench->arguments, "profile");
  g_autofree char *name = g_strconcat(c->name, ".svg", NULL);
  g_strcanon(name, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "._=-", '_');
  g_autofree char *path = g_build_filename(folder, name, NULL);
  g_autofree char *picture = bench_chart_profile(profile, c->name);
  GError *cause = NULL;
  if (!g_mkdir_with_parents(folder, 0777) && g_file_set_contents(path, picture, -1, &cause)) return true;
  error_set(error, ERROR_INPUT, NULL, "unwritable", NULL, "cannot write %s%s%s", path, cause ? ": " : "",
            cause ? cause->message : "");
  g_clear_error(&cause);
  return false;
}

static void print_profile(const Bench *bench, const BenchCase *c, const json_t *profile)
{
  const json_t *launches = json_object_get(profile, "launches");
  printf("%s: %zu launches, %.2f us in one graph, %.2f us with an event in front of each\n", c->name,
         json_array_size(launches), json_number_value(json_object_get(profile, "us")),
         profile_sum(launches, &profile_times));
  profile_print_kernels(bench->cli, launches, &profile_times);
}

static bool take_profile(const BenchCase *c, const json_t *profile, void *data, GError **error)
{
  const Bench *bench = data;
  if (!bench->cli->json) print_profile(bench, c, profile);
  return write_picture(bench, c, profile, error);
}

static void print_note(const char *text, void *data)
{
  fprintf(stderr, "%s\n", text);
}

static void print_ceilings(const json_t *result)
{
  const json_t *ceilings = json_object_get(result, "ceilings");
  static const char *const families[] = {"warp_mma", "warpgroup_mma"};
  printf("ceilings: read %.0f GB/s, copy %.0f GB/s",
         json_number_value(json_object_get(ceilings, "read")) * 1e-9,
         json_number_value(json_object_get(ceilings, "copy")) * 1e-9);
  for (unsigned i = 0; i < G_N_ELEMENTS(families); i++) {
    const char *type;
    json_t *rate;
    json_object_foreach(json_object_get(ceilings, families[i]), type, rate)
        printf(", %s %s %.0f TFLOP/s", families[i], type, json_number_value(rate) * 1e-12);
  }
  printf("\n");
}

static void print_classes(const Bench *bench, const json_t *result)
{
  static const char *const headers[] = {"class",        "mode",   ">cases",     ">roof",
                                        ">peer / ours", ">worst", "worst case", NULL};
  g_autoptr(Table) table = table_new(headers);
  size_t i;
  json_t *class_;
  json_array_foreach(json_object_get(result, "classes"), i, class_)
  {
    json_t *peer = json_object_get(class_, "peer_ratio");
    g_autofree char *n = g_strdup_printf("%d", (int)json_integer_value(json_object_get(class_, "cases")));
    g_autofree char *roof =
        g_strdup_printf("%.3f", json_number_value(json_object_get(class_, "roof_fraction")));
    g_autofree char *ratio = peer ? g_strdup_printf("%.3f", json_number_value(peer)) : g_strdup("");
    g_autofree char *worst =
        peer ? g_strdup_printf("%.3f", json_number_value(json_object_get(class_, "worst_ratio")))
             : g_strdup("");
    const char *name = json_string_value(json_object_get(class_, "worst_case"));
    table_row(table, json_string_value(json_object_get(class_, "class")),
              json_string_value(json_object_get(class_, "mode")), n, roof, ratio, worst, name ? name : "",
              NULL);
  }
  table_print(table, bench->cli);
}

static bool write_result(const Bench *bench, const json_t *result, GError **error)
{
  const char *path = argument_value(bench->arguments, "out");
  if (!path) return true;
  char *text = json_dumps(result, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
  GError *cause = NULL;
  bool ok = g_file_set_contents(path, text, -1, &cause);
  if (!ok) {
    error_set(error, ERROR_INPUT, NULL, "unwritable", NULL, "cannot write the result: %s", cause->message);
    g_error_free(cause);
  }
  free(text);
  return ok;
}

/* ---- the command ---- */

static bool open_machine(Bench *bench, GError **error)
{
  BenchSession *s = &bench->session;
  unsigned number = 0;
  if (!argument_unsigned(bench->arguments, "device", &number, error)) return false;
  bench->assembler = assembler_of_options(bench->cli, bench->arguments, error);
  s->assembler = bench->assembler;
  s->gpu = bench->assembler ? bench_gpu_open(number, error) : NULL;
  if (!s->gpu) return false;
  if (!bench->cublaslt) return true;
  GError *missing = NULL;
  s->cublaslt = cublaslt_open(s->gpu, argument_value(bench->arguments, "cublaslt"), &missing);
  if (!s->cublaslt) fprintf(stderr, "cublaslt is left out: %s\n", missing->message);
  g_clear_error(&missing);
  return true;
}

static bool measure(Bench *bench, GError **error)
{
  BenchSession *s = &bench->session;
  unsigned n_wrong = 0;
  if (!read_work(bench, error) || !open_machine(bench, error)) return false;
  s->description = bench->gpu;
  s->cases = (BenchCase **)(void *)bench->cases->pdata;
  s->n_cases = bench->cases->len;
  for (unsigned i = 0; i < s->n_cases; i++)
    s->cases[i]->accumulate = accumulate_parse(argument_value(bench->arguments, "accumulate"));
  s->version = ADLGEN_VERSION;
  s->reference = run_compare;
  s->line = print_line;
  s->profiled = take_profile;
  s->note = print_note;
  s->data = bench;
  json_t *result = bench_session_run(s, &n_wrong, error);
  if (!result) return false;
  bool ok = write_result(bench, result, error);
  if (ok && bench->cli->json) cli_print_json(json_incref(result));
  if (ok && !bench->cli->json) {
    print_ceilings(result);
    print_classes(bench, result);
    if (n_wrong) printf("%u candidates could not be measured or are wrong\n", n_wrong);
  }
  if (ok && n_wrong) *bench->cli->exit_code = ERROR_VERIFY;
  json_decref(result);
  return ok;
}

static bool write_report(const Cli *cli, const Arguments *arguments, GError **error)
{
  json_t *files = json_array();
  bool ok = bench_report(argument_value(arguments, "root"), files, error);
  if (ok && cli->json) cli_print_json(json_pack("{s:i, s:O}", "version", 1, "files", files));
  json_decref(files);
  return ok;
}

bool command_bench(const Cli *cli, const Arguments *arguments, GError **error)
{
  if (argument_count(arguments) && !strcmp(argument_at(arguments, 0), "report"))
    return write_report(cli, arguments, error);
  Bench bench = {.cli = cli, .arguments = arguments};
  bench.variants = g_ptr_array_new_with_free_func((GDestroyNotify)bench_variant_free);
  bench.plugins = g_ptr_array_new_with_free_func((GDestroyNotify)bench_plugin_close);
  bool ok = measure(&bench, error);
  g_ptr_array_unref(bench.plugins);
  g_clear_pointer(&bench.peer_variants, g_regex_unref);
  cublaslt_close(bench.session.cublaslt);
  bench_gpu_close(bench.session.gpu);
  assembler_free(bench.assembler);
  g_clear_pointer(&bench.cases, g_ptr_array_unref);
  g_ptr_array_unref(bench.variants);
  tuned_database_free(bench.tuned);
  gpu_free(bench.gpu);
  return ok;
}
