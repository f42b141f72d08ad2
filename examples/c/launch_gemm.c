/* Compiles a matrix product for the GPU of this machine, runs it on a stream and checks one element.
 *
 *   cc launch_gemm.c $(pkg-config --cflags --libs adlgen) -lcuda -o launch_gemm && ./launch_gemm */
#include <adlgen/adlgen.h>
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
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

static void check(CUresult status, const char *what)
{
  if (status == CUDA_SUCCESS) return;
  fprintf(stderr, "%s: CUDA error %d\n", what, (int)status);
  exit(1);
}

static void report(const adlgen_error *error)
{
  fprintf(stderr, "%s\n", error->message);
  if (error->hint) fprintf(stderr, "hint: %s\n", error->hint);
  exit(error->code);
}

/* Values 0.5, 0.25 and 1 as bf16: the upper half of a float. */
static const uint16_t values[] = {0x3f00, 0x3e80, 0x3f80};

int main(void)
{
  adlgen_error error = {0};
  CUdevice device;
  CUcontext context;
  CUstream stream;
  check(cuInit(0), "cuInit");
  check(cuDeviceGet(&device, 0), "cuDeviceGet");
  check(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
  check(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");

  /* Once: from the description to an executable in the current context. Kernels that no launch has needed yet
   * are assembled meanwhile. */
  adlgen_executable *gemm = adlgen_jit_text("example_gemm", graph, strlen(graph), NULL, NULL, &error);
  if (!gemm) report(&error);
  if (adlgen_executable_load(gemm, &error)) report(&error); /* not needed: waits for all */
  printf("for %s, %zu kernels assembled\n", adlgen_executable_gpu(gemm), adlgen_executable_assembled(gemm));
  for (size_t i = 0; i < adlgen_executable_warning_count(gemm); i++)
    printf("warning: %s\n", adlgen_executable_warning(gemm, i));

  /* Memory is the program's. */
  const long long dims[] = {300}; /* M */
  const void *tensors[4];
  size_t workspace_bytes;
  CUdeviceptr workspace = 0;
  adlgen_tensor tensor = {.size = sizeof tensor};
  for (size_t i = 0; i < adlgen_executable_tensor_count(gemm); i++) {
    CUdeviceptr memory;
    if (adlgen_executable_tensor(gemm, i, dims, &tensor, &error)) report(&error);
    check(cuMemAlloc(&memory, tensor.bytes), tensor.name);
    if (tensor.kind == ADLGEN_INPUT) check(cuMemsetD16(memory, values[i], tensor.bytes / 2), tensor.name);
    tensors[i] = (const void *)(uintptr_t)memory;
  }
  if (adlgen_executable_workspace(gemm, dims, &workspace_bytes, &error)) report(&error);
  if (workspace_bytes) check(cuMemAlloc(&workspace, workspace_bytes), "workspace");

  /* Again and again: on any stream, with any M. */
  check(cuStreamSynchronize(NULL), "cuMemsetD16");
  if (adlgen_launch(gemm, stream, tensors, dims, (void *)(uintptr_t)workspace, workspace_bytes, &error))
    report(&error);
  check(cuStreamSynchronize(stream), "the kernel");

  uint16_t last;
  check(cuMemcpyDtoH(&last, (CUdeviceptr)(uintptr_t)tensors[3] + tensor.bytes - sizeof last, sizeof last),
        "cuMemcpyDtoH");
  uint32_t bits = (uint32_t)last << 16;
  float number;
  memcpy(&number, &bits, sizeof number);
  printf("C[299, 1023] = %g, expected 65\n", number);
  adlgen_executable_free(gemm);
  return number == 65 ? 0 : 1;
}
