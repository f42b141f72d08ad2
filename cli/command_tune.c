/* adlgen tune: which of the ways to compute an operator is the fastest on the GPU of this machine. */
#include "base/version.h"
#include "cli/accumulate_option.h"
#include "cli/assembler_option.h"
#include "cli/cli.h"
#include "cli/tuned_option.h"
#include "execute/data.h"
#include "measure/suite.h"
#include "measure/tune.h"
#include <errno.h>
#include <glib/gstdio.h>
#include <string.h>

#define PROPOSALS 24  /* measured for a product, unless --top says otherwise */
#define SLACK     2.0 /* --evaluate: proposals that cost more than so many times the cheapest are left out */

const Option tune_options[] = {
    {.name = "gpu", .value = "GPU", .doc = "the GPU to compile for: a name or a YAML file"},
    {.name = "suite",
     .value = "SUITE",
     .doc = "the cases to tune for: a file, or the name of one that is built in"},
    {.name = "only", .value = "REGEX", .doc = "cases whose name matches"},
    {.name = "dim", .value = "NAME=VALUE", .repeated = true, .doc = "value of a symbolic dimension of GRAPH"},
    {.name = "sms", .value = "N", .doc = "SMs that kernels may use at most; default: all of the GPU"},
    OPTION_ACCUMULATE,
    {.name = "top", .value = "N", .doc = "proposals to measure for an operator; default: 24"},
    {.name = "kinds",
     .value = "N",
     .doc = "considers N proposals of each kind of tile, which are alike but for columns and parts of k; "
            "default: all"},
    {.name = "budget", .value = "SECONDS", .doc = "no case is begun after so many"},
    {.name = "rounds",
     .value = "N",
     .doc = "times each of the fastest has its turn in the second measurement; default: 7"},
    {.name = "out",
     .value = "FILE",
     .doc = "file of measured choices that gets the winners, beside what it has; default: the user's own, "
            "which compile reads"},
    {.name = "gain",
     .value = "X",
     .doc = "keeps a winner only if it is X times as fast as the model's choice, such as 1.01; default: all"},
    {.name = "evaluate",
     .doc = "measures every proposal (the model's hopeless ones aside), says how good choosing without "
            "measuring was; writes no choices unless --out is given"},
    {.name = "result", .value = "FILE", .doc = "file that gets every time as JSON"},
    {.name = "times", .value = "FILE", .doc = "takes times from such a file; needs no GPU"},
    {.name = "list", .doc = "shows the proposals, measures nothing; needs no GPU"},
    {.name = "prepare", .doc = "assembles the proposals into the cache, measures nothing; needs no GPU"},
    {.name = "device", .value = "N", .doc = "number of the GPU to run on; default: 0"},
    {.name = "ptxas", .value = "FILE", .doc = "the assembler to use; default: see adlgen doctor"},
    OPTION_ASSEMBLER,
    OPTION_NO_CACHE,
    {.name = "jobs", .value = "N", .doc = "threads to use; default: one per processor"},
    {.name = NULL},
};

typedef struct Tune {
  const Cli *cli;
  const Arguments *arguments;
  TuneSession session;
  Gpu *gpu;
  GPtrArray *cases;
  BenchGpu *machine;
  Assembler *assembler;
  BenchCode *code;
  TuneGpu clock;
  TuneAssembler assembly;
  json_t *times;
  TunedFile *file;
  char *out; /* NULL: the winners are not kept */
  bool head_printed;
} Tune;

static bool flag(const Tune *tune, const char *name)
{
  return argument_flag(tune->arguments, name);
}

static bool usage(GError **error, const char *message)
{
  error_set(error, ERROR_USAGE, NULL, "missing-argument", "adlgen tune --help lists its options", "%s",
            message);
  return false;
}

/* ---- what is asked for ---- */

static bool check_options(const Tune *tune, GError **error)
{
  static const char *const ways[] = {"list", "prepare", "times"};
  unsigned n = 0;
  for (unsigned i = 0; i < G_N_ELEMENTS(ways); i++)
    n += flag(tune, ways[i]);
  if (!flag(tune, "gpu")) return usage(error, "adlgen tune needs --gpu");
  if (n > 1) return usage(error, "--list, --prepare and --times exclude each other");
  if (flag(tune, "evaluate") && flag(tune, "top"))
    return usage(error, "--evaluate measures every proposal: it takes no --top");
  if (flag(tune, "suite") == (argument_count(tune->arguments) > 0))
    return usage(error, "adlgen tune takes a GRAPH or --suite");
  return true;
}

static bool read_gain(Tune *tune, GError **error)
{
  const char *text = argument_value(tune->arguments, "gain");
  char *end = NULL;
  double gain = text ? g_ascii_strtod(text, &end) : 0;
  if (text && (end == text || *end || !(gain >= 1))) {
    error_set(error, ERROR_USAGE, NULL, "bad-number", NULL, "--gain takes a number from 1 on, not `%s`",
              text);
    return false;
  }
  tune->session.gain = gain;
  return true;
}

static bool read_numbers(Tune *tune, GError **error)
{
  TuneSession *session = &tune->session;
  unsigned seconds = 0, rounds = 7;
  session->top = flag(tune, "evaluate") ? 0 : PROPOSALS;
  session->slack = flag(tune, "evaluate") ? SLACK : 0;
  if (!argument_unsigned(tune->arguments, "top", &session->top, error) ||
      !argument_positive(tune->arguments, "kinds", &session->kinds, error) ||
      !argument_unsigned(tune->arguments, "budget", &seconds, error) ||
      !argument_positive(tune->arguments, "rounds", &rounds, error) ||
      !argument_positive(tune->arguments, "jobs", &session->threads, error) ||
      !sms_of_options(tune->arguments, &session->sms, error))
    return false;
  if (!session->top && flag(tune, "top")) return usage(error, "--top must be at least 1");
  session->seconds = seconds;
  if (!read_gain(tune, error)) return false;
  tune->clock.rough = (BenchTimingOptions){.rounds = 2, .short_us = 20, .round_us = 500};
  tune->clock.thorough = (BenchTimingOptions){.rounds = MAX(rounds, 1), .short_us = 20};
  tune->clock.near = 1.1;
  return true;
}

static bool load_cases(Tune *tune, GError **error)
{
  static const char *const none[] = {NULL};
  const char *suite = argument_value(tune->arguments, "suite");
  if (suite) {
    tune->cases = bench_suite_load(suite, argument_value(tune->arguments, "only"), error);
    return tune->cases != NULL;
  }
  g_autoptr(Source) source = source_load(argument_at(tune->arguments, 0), error);
  BenchCase *c =
      source ? bench_case_new(source, NULL, argument_values(tune->arguments, "dim"), none, error) : NULL;
  if (!c) return false;
  cli_warn(tune->cli, c->graph->warnings);
  tune->cases = g_ptr_array_new_with_free_func((GDestroyNotify)bench_case_free);
  g_ptr_array_add(tune->cases, c);
  return true;
}

static bool read_cases(Tune *tune, GError **error)
{
  if (!load_cases(tune, error)) return false;
  for (unsigned i = 0; i < tune->cases->len; i++) {
    BenchCase *c = tune->cases->pdata[i];
    c->accumulate = accumulate_parse(argument_value(tune->arguments, "accumulate"));
  }
  return true;
}

/* ---- the file of choices ---- */

static bool open_file(Tune *tune, GError **error)
{
  bool kept = flag(tune, "out") || !(flag(tune, "evaluate") || flag(tune, "list") || flag(tune, "prepare"));
  const char *given = argument_value(tune->arguments, "out");
  if (kept) tune->out = given ? g_strdup(given) : tuned_user_path(tune->gpu->name);
  if (tune->out && g_file_test(tune->out, G_FILE_TEST_EXISTS)) {
    g_autoptr(Source) source = source_load(tune->out, error);
    tune->file = source ? tuned_file_read(source, error) : NULL;
    if (!tune->file) return false;
    g_autofree char *stale = tuned_file_stale(tune->file, tune->gpu);
    if (!stale) return true;
    error_set(error, ERROR_INPUT, NULL, "stale-choices", "remove it, or name another with --out",
              "%s cannot be added to: %s", tune->out, stale);
    return false;
  }
  tune->file = tuned_file_new(tune->gpu);
  return true;
}

static bool write_file(const char *path, const char *text, GError **error)
{
  g_autofree char *folder = g_path_get_dirname(path);
  GError *cause = NULL;
  if (!g_mkdir_with_parents(folder, 0777) && g_file_set_contents(path, text, -1, &cause)) return true;
  error_set(error, ERROR_INPUT, NULL, "unwritable", NULL, "cannot write %s: %s", path,
            cause ? cause->message : g_strerror(errno));
  g_clear_error(&cause);
  return false;
}

/* ---- output ---- */

static void print_begin(const BenchCase *c, const ProductProposals *product, unsigned n, void *data)
{
  const Tune *tune = data;
  if (tune->cli->error_terminal && !tune->cli->json) fprintf(stderr, "\r\033[K%s: %u proposals", c->name, n);
}

static void end_progress(const Tune *tune)
{
  if (tune->cli->error_terminal && !tune->cli->json) fprintf(stderr, "\r\033[K");
}

static char *parameters_of(const ProductProposals *product, unsigned i)
{
  const Proposal *proposal = &g_array_index(product->proposals, Proposal, i);
  const TunedEntry entry = {.parameters = (TunedParameter *)proposal->parameters,
                            .n_parameters = proposal->n_parameters};
  return tuned_parameters_text(&entry);
}

static void print_line(const TuneLine *line, void *data)
{
  Tune *tune = data;
  end_progress(tune);
  if (tune->cli->json) return;
  if (!tune->head_printed)
    printf("%-40s %9s %7s %9s %9s %7s  %s\n", "case", "proposals", "failed", "model us", "best us", "gain",
           "fastest");
  tune->head_printed = true;
  double first = line->times[0].us, best = line->times[line->winner].us;
  g_autofree char *text = parameters_of(line->product, line->winner);
  printf("%-40s %9u %7u %9.2f %9.2f %7.3f  %s\n", line->c->name, line->n, line->n_failed, first, best,
         first / best, isnan(best) ? "" : text);
  fflush(stdout);
}

static void print_note(const char *text, void *data)
{
  end_progress(data);
  fprintf(stderr, "%s\n", text);
}

static bool list_proposal(void *data, const TuneWork *work, TuneTime *times, GError **error)
{
  const Tune *tune = data;
  for (unsigned i = 0; i < work->n && !tune->cli->json; i++) {
    g_autofree char *text = parameters_of(work->product, i);
    double clocks = g_array_index(work->product->proposals, Proposal, i).clocks;
    g_autofree char *price = clocks > 0 ? g_strdup_printf("%.0f clocks", clocks) : g_strdup("-");
    printf("%-40s %17s  %s%s\n", i ? "" : work->c->name, price, text, i ? "" : "  (the model's choice)");
  }
  return true;
}

static void print_choice(const json_t *result)
{
  const json_t *choice = json_object_get(result, "choice");
  if (!json_object_get(choice, "first")) return;
  printf("choice without measuring, geometric mean over %d products: the model's first %.4f of the best, the "
         "best of its first 8 %.4f\n",
         (int)json_integer_value(json_object_get(choice, "products")),
         json_number_value(json_object_get(choice, "first")),
         json_number_value(json_object_get(choice, "best_of_8")));
}

/* ---- the clock ---- */

static bool read_times(Tune *tune, GError **error)
{
  const char *path = argument_value(tune->arguments, "times");
  g_autoptr(Source) source = source_load(path, error);
  json_error_t fault;
  if (!source) return false;
  tune->times = json_loadb(source->text, source->length, JSON_REJECT_DUPLICATES, &fault);
  if (!tune->times || json_integer_value(json_object_get(tune->times, "version")) < 1 ||
      json_integer_value(json_object_get(tune->times, "version")) > TUNED_VERSION ||
      !json_is_array(json_object_get(tune->times, "products"))) {
    const Mark mark = {source, tune->times ? 1 : (unsigned)fault.line,
                       tune->times ? 1 : (unsigned)fault.column};
    error_set(error, ERROR_INPUT, &mark, "bad-times", "adlgen tune --result writes such files", "%s",
              tune->times ? "this is no result of adlgen tune" : fault.text);
    return false;
  }
  tune->session.clock = tune_recorded_clock(tune->times);
  return true;
}

static bool open_clock(Tune *tune, GError **error)
{
  unsigned number = 0;
  if (flag(tune, "times")) return read_times(tune, error);
  if (flag(tune, "list")) {
    tune->session.clock = (TuneClock){.measure = list_proposal, .data = tune};
    return true;
  }
  tune->assembler = assembler_of_options(tune->cli, tune->arguments, error);
  if (!tune->assembler || !argument_unsigned(tune->arguments, "device", &number, error)) return false;
  tune->assembly = (TuneAssembler){.assembler = tune->assembler, .threads = tune->session.threads};
  if (flag(tune, "prepare")) {
    tune->session.clock = tune_assembler_clock(&tune->assembly);
    return true;
  }
  tune->machine = bench_gpu_open(number, error);
  if (!tune->machine) return false;
  tune->code = bench_code_new(tune->assembler, bench_gpu_device(tune->machine));
  tune->clock.gpu = tune->machine;
  tune->clock.code = tune->code;
  tune->clock.reference = run_compare;
  tune->clock.threads = tune->session.threads;
  tune->session.clock = tune_gpu_clock(&tune->clock);
  return true;
}

/* ---- the command ---- */

static bool write_results(Tune *tune, json_t *result, GError **error)
{
  const char *path = argument_value(tune->arguments, "result");
  if (tune->out) {
    g_autofree char *text = tuned_file_text(tune->file);
    if (!write_file(tune->out, text, error)) return false;
  }
  if (!path) return true;
  char *dumped = json_dumps(result, JSON_COMPACT | JSON_REAL_PRECISION(5));
  g_autoptr(GString) text = g_string_new(dumped);
  free(dumped);
  g_string_replace(text, "{\"parameters\"", "\n{\"parameters\"", 0); /* a line a proposal */
  g_string_append_c(text, '\n');
  return write_file(path, text->str, error);
}

static void add_facts(const Tune *tune, json_t *result)
{
  g_autoptr(GDateTime) now = g_date_time_new_now_utc();
  g_autofree char *date = g_date_time_format(now, "%Y-%m-%d");
  if (!tune->machine) return;
  json_object_set_new(result, "date", json_string(date));
  json_object_set_new(result, "machine", bench_gpu_to_json(tune->machine));
  json_object_set_new(result, "versions",
                      json_pack("{s:s, s:s?}", "adlgen", ADLGEN_VERSION, "ptxas", tune->assembler->version));
}

static bool tune_all(Tune *tune, GError **error)
{
  TuneSession *session = &tune->session;
  if (!check_options(tune, error) || !read_numbers(tune, error)) return false;
  tune->gpu = gpu_load(argument_value(tune->arguments, "gpu"), error);
  if (!tune->gpu || !read_cases(tune, error) || !open_file(tune, error) || !open_clock(tune, error))
    return false;
  bool silent = flag(tune, "list") || flag(tune, "prepare");
  session->description = tune->gpu;
  session->cases = (BenchCase **)(void *)tune->cases->pdata;
  session->n_cases = tune->cases->len;
  session->begin = print_begin;
  session->line = silent ? NULL : print_line;
  session->note = print_note;
  session->data = tune;
  json_t *result = tune_run(session, tune->file, error);
  end_progress(tune);
  if (!result) return false;
  add_facts(tune, result);
  bool ok = write_results(tune, result, error);
  if (ok && tune->cli->json) cli_print_json(json_incref(result));
  if (ok && !tune->cli->json) {
    if (flag(tune, "prepare"))
      printf("%u kernels assembled, %u failed\n", tune->assembly.n_assembled, tune->assembly.n_failed);
    print_choice(result);
    if (tune->out) printf("%u choices are in %s\n", tuned_file_count(tune->file), tune->out);
  }
  json_decref(result);
  return ok;
}

bool command_tune(const Cli *cli, const Arguments *arguments, GError **error)
{
  Tune tune = {.cli = cli, .arguments = arguments};
  bool ok = tune_all(&tune, error);
  bench_code_free(tune.code);
  bench_gpu_close(tune.machine);
  assembler_free(tune.assembler);
  tuned_file_free(tune.file);
  if (tune.cases) g_ptr_array_unref(tune.cases);
  gpu_free(tune.gpu);
  json_decref(tune.times);
  g_free(tune.out);
  return ok;
}
