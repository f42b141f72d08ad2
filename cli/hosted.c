/* The program as a library's function, for a process that brings peers of its own: scripts/peers/graphs.py. */
#include "cli/cli.h"

int main(int n, char **words);
__attribute__((visibility("default"))) int adlgen_program(int n, char **words);

int adlgen_program(int n, char **words)
{
  int status = main(n, words);
  fflush(NULL);
  return status;
}
