/* Checks one GPU description and prints what is wrong with it, with nothing of the command line around it. */
#include "adl/gpu.h"

int main(int argc, char **argv)
{
  g_autoptr(GError) error = NULL;
  if (argc != 2) return ERROR_USAGE;
  if (gpu_check(argv[1], &error)) return 0;
  error_print(error, stderr, false);
  return error_exit_code(error);
}
