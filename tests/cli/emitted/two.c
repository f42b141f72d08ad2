/* Uses the emitted C of the graph `gemm` for two GPUs in one program; C and C++. */
#include "gemm_a100.h"
#include "gemm_h100.h"
#include <stdio.h>

int main()
{
  gemm_a100_module a100;
  gemm_h100_module h100;
  gemm_a100_arguments small = {0, 0, 0, 0, 0, 0};
  gemm_h100_arguments large = {0, 0, 0, 0, 0, 0};
  if (gemm_a100_load(&a100) || gemm_h100_load(&h100)) return 1;
  printf("status %d %d\n", gemm_a100_launch(&a100, &small, 0), gemm_h100_launch(&h100, &large, 0));
  small.M = large.M = -1;
  printf("status %d %d\n", gemm_a100_launch(&a100, &small, 0) == GEMM_A100_ERROR_SYMBOL,
         gemm_h100_launch(&h100, &large, 0) == GEMM_H100_ERROR_SYMBOL);
  gemm_a100_unload(&a100);
  gemm_h100_unload(&h100);
  return 0;
}
