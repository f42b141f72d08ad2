/* Compiles a matrix product for a GPU and writes what came out to standard output: compile_gemm [GPU]
 *
 *   cc compile_gemm.c $(pkg-config --cflags --libs adlgen) -o compile_gemm && ./compile_gemm h100 */
#include <adlgen/adlgen.h>
#include <stdio.h>
#include <string.h>

/* C[M, 1024] = relu(A[M, 512] x B[512, 1024] + bias); M is known only when the kernel is launched. */
static const char graph[] =
    "{'name': 'example_gemm',"
    " 'inputs': {'A': {'type': 'bf16', 'shape': ['M', 512]}, 'B': {'type': 'bf16', 'shape': [512, 1024]},"
    "            'bias': {'type': 'bf16', 'shape': [1024]}},"
    " 'dims': {'M': {'min': 1, 'max': 65536}},"
    " 'nodes': [{'op': 'MatMul', 'inputs': ['A', 'B'], 'outputs': ['product']},"
    "           {'op': 'Add', 'inputs': ['product', 'bias'], 'outputs': ['sum']},"
    "           {'op': 'Relu', 'inputs': ['sum'], 'outputs': ['C']}],"
    " 'outputs': ['C']}";

static int report(const adlgen_error *error)
{
  fprintf(stderr, "%s:%u:%u: %s\n", error->file ? error->file : "adlgen", error->line, error->column,
          error->message);
  if (error->hint) fprintf(stderr, "hint: %s\n", error->hint);
  return error->code;
}

int main(int argc, char **argv)
{
  adlgen_error error = {0};
  adlgen_options options = {.size = sizeof options};
  adlgen_gpu *gpu = adlgen_gpu_load(argc > 1 ? argv[1] : "h100", &error);
  adlgen_result *result =
      gpu ? adlgen_compile_text("example_gemm", graph, strlen(graph), gpu, &options, &error) : NULL;
  int status = result ? 0 : report(&error);
  if (result) {
    printf("adlgen %s: %zu kernels for %s (%s)\n", adlgen_version(), adlgen_result_kernel_count(result),
           adlgen_gpu_name(gpu), adlgen_gpu_target(gpu));
    for (size_t i = 0; i < adlgen_result_kernel_count(result); i++)
      printf("%s: %zu bytes of PTX\n", adlgen_result_name(result, i), strlen(adlgen_result_ptx(result, i)));
  }
  adlgen_result_free(result);
  adlgen_gpu_free(gpu);
  adlgen_error_clear(&error);
  return status;
}
