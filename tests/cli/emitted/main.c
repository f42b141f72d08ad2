/* Uses the emitted C of the graph `gemm` for one GPU (tests/cli/emitted/gemm.json). */
#include "gemm_h100.h"
#include <stdio.h>

static void launch(const gemm_h100_module *module, gemm_h100_arguments arguments, const char *what)
{
  printf("%s: workspace %lld\n", what, (long long)gemm_h100_workspace_bytes(&arguments));
  printf("status %d\n", gemm_h100_launch(module, &arguments, 0));
}

int main(void)
{
  gemm_h100_module module;
  gemm_h100_arguments arguments = {
      .M = 1000, .A = 0x10000, .B = 0x20000, .bias = 0x30000, .D = 0x40000, .workspace = 0x50000};
  if (gemm_h100_load(&module)) return 1;
  launch(&module, arguments, "aligned");
  arguments.A += 2;
  launch(&module, arguments, "not aligned");
  arguments.M = 0;
  launch(&module, arguments, "nothing to do");
  arguments.M = -1;
  launch(&module, arguments, "out of range");
  arguments.M = 8;
  arguments.D += 1;
  launch(&module, arguments, "an address between elements");
  gemm_h100_unload(&module);
  return 0;
}
