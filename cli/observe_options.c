#include "cli/observe_options.h"

bool observe_options(const Arguments *arguments, SimOptions *options, GError **error)
{
  options->counts = argument_flag(arguments, "counts");
  options->breaks = argument_values(arguments, "break");
  options->watches = argument_values(arguments, "watch");
  options->warp = argument_value(arguments, "warp");
  static const char *const needing[] = {"watch", "warp", "hits"};
  for (unsigned i = 0; i < G_N_ELEMENTS(needing) && !*options->breaks; i++)
    if (argument_flag(arguments, needing[i])) {
      error_set(error, ERROR_USAGE, NULL, "missing-option", "such as --break kernel.ptx:120",
                "--%s says nothing without --break", needing[i]);
      return false;
    }
  for (const char *const *text = options->breaks; *text; text++) {
    g_autofree char *file = NULL;
    unsigned line = 0;
    if (!sim_break_parse(*text, &file, &line, error)) return false;
  }
  if (*options->breaks) options->jobs = 1; /* the same order of stops every time */
  return argument_unsigned(arguments, "hits", &options->hits, error);
}
