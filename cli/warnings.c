/* Warnings of a result that is right all the same: on standard error, or beside the result in JSON. */
#include "cli/cli.h"

void cli_warn(const Cli *cli, const GError *warnings)
{
  if (warnings && !cli->json) error_print(warnings, stderr, cli->error_colour);
}

void cli_add_warnings(json_t *object, const GError *warnings)
{
  if (!warnings) return;
  json_t *errors = error_to_json(warnings);
  json_object_set(object, "errors", json_object_get(errors, "errors"));
  json_decref(errors);
}
