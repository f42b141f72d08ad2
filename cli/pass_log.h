/* What happens after each pass: dumps for --print-after, times for --time-passes. */
#pragma once
#include "cli/cli.h"
#include "generator/front/census.h"
#include "ir/pass.h"

typedef struct PassLog PassLog;

/* print_after: pass names or "all", NULL-terminated. ERROR_USAGE with a did-you-mean for an unknown one. */
PassLog *pass_log_new(const char *const *print_after, GError **error);
void pass_log_free(PassLog *log);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PassLog, pass_log_free)

/* What the option of this name takes, beside `all`: --start-after passes of kernels, --skip rewrites of fusion too, --print-after passes
 * of reading as well. Names only, not owned by the array. */
GPtrArray *pass_log_names(const char *what);
/* Checks that a word names a pass; what is the option it was given to. */
bool pass_log_known(const char *what, const char *pass, GError **error);

/* For CompileOptions.report with the log as data: takes the time and the text. */
void pass_log_report(const char *kernel, const IrPassReport *report, IrModule *module, void *data);

/* For GraphReading.report and CompileOptions.report_rewrite: take the text. A reading that begins anew forgets what it gave. */
void pass_log_report_reading(unsigned pass, const Graph *graph, void *data);
void pass_log_report_rewrite(unsigned rewrite, const char *text, void *data);

typedef struct PassDump {
  char *file; /* "<kernel>.NN-<pass>.ir", "graph.NN-<pass>.txt" */
  char *text;
} PassDump;

/* The dumps taken since the last call (PassDump *, owned by the caller's array), in order. */
GPtrArray *pass_log_take_dumps(PassLog *log);

/* Times summed over kernels, in the order of the passes. */
void pass_log_print(const PassLog *log, const Cli *cli);
json_t *pass_log_json(const PassLog *log);
