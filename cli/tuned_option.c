#include "cli/tuned_option.h"

bool tuned_check_options(const Arguments *arguments, GError **error)
{
  if (!argument_flag(arguments, "tuned") || !argument_flag(arguments, "no-tuned")) return true;
  error_set(error, ERROR_USAGE, NULL, "wrong-option", NULL, "--tuned and --no-tuned exclude each other");
  return false;
}

bool tuned_of_options(const Arguments *arguments, const Gpu *gpu, TunedDatabase **database, GError **error)
{
  *database = NULL;
  if (!tuned_check_options(arguments, error)) return false;
  if (argument_flag(arguments, "no-tuned")) return true;
  *database = tuned_database_open(gpu, argument_values(arguments, "tuned"), error);
  return *database != NULL;
}

bool sms_of_options(const Arguments *arguments, unsigned *sms, GError **error)
{
  unsigned wanted = 1;
  if (!argument_flag(arguments, "sms")) return true;
  if (!argument_unsigned(arguments, "sms", &wanted, error)) return false;
  if (wanted == 0) {
    error_set(error, ERROR_USAGE, NULL, "wrong-value", NULL, "--sms must be at least 1");
    return false;
  }
  *sms = wanted;
  return true;
}
