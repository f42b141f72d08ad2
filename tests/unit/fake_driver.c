/* A stand-in for the CUDA driver: device memory is host memory, and a kernel writes what it was launched with
 * to its first argument. A module whose text starts with "broken" is refused; a kernel named "crash" breaks
 * the stream. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { NOT_FOUND = 500, INVALID = 200, LAUNCH_FAILED = 719 };

typedef struct Attribute {
  int id, padding;
  union {
    unsigned cluster[3];
    int allowed;
    char bytes[64];
  } value;
} Attribute;

typedef struct Config {
  unsigned grid[3], block[3], shared;
  void *stream;
  Attribute *attributes;
  unsigned n;
} Config;

static int broken;

int cuInit(unsigned flags)
{
  return 0;
}

int cuGetErrorName(int status, const char **text)
{
  *text = status == LAUNCH_FAILED ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR";
  return 0;
}

int cuGetErrorString(int status, const char **text)
{
  *text = status == LAUNCH_FAILED ? "unspecified launch failure" : "an error";
  return 0;
}

int cuDeviceGetCount(int *n)
{
  *n = 1;
  return 0;
}

int cuDeviceGet(int *device, int number)
{
  *device = number;
  return 0;
}

int cuDeviceGetName(char *name, int length, int device)
{
  strncpy(name, "Stand-in", (size_t)length);
  return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
  *value = attribute == 75 ? 9 : 0;
  return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
  *context = &broken;
  return 0;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
  broken = 0;
  return 0;
}

int cuCtxSetCurrent(void *context)
{
  return 0;
}

int cuCtxGetCurrent(void **context)
{
  *context = NULL;
  return 0;
}

int cuCtxPushCurrent_v2(void *context)
{
  return 0;
}

int cuCtxPopCurrent_v2(void **context)
{
  return 0;
}

int cuCtxGetDevice(int *device)
{
  return 201;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
  *bytes = (size_t)1 << 36;
  return 0;
}

int cuStreamCreate(void **stream, unsigned flags)
{
  *stream = &broken;
  return 0;
}

int cuStreamDestroy_v2(void *stream)
{
  return 0;
}

int cuStreamSynchronize(void *stream)
{
  return broken;
}

int cuMemAlloc_v2(uint64_t *address, size_t bytes)
{
  *address =
      bytes > UINT64_C(1) << 40 ? 0 : (uint64_t)(uintptr_t)aligned_alloc(256, (bytes + 255) / 256 * 256);
  return *address ? 0 : 2;
}

int cuMemFree_v2(uint64_t address)
{
  free((void *)(uintptr_t)address);
  return 0;
}

int cuMemcpyHtoDAsync_v2(uint64_t address, const void *data, size_t bytes, void *stream)
{
  memcpy((void *)(uintptr_t)address, data, bytes);
  return 0;
}

int cuMemcpyDtoHAsync_v2(void *data, uint64_t address, size_t bytes, void *stream)
{
  memcpy(data, (void *)(uintptr_t)address, bytes);
  return 0;
}

int cuMemcpyHtoD_v2(uint64_t address, const void *data, size_t bytes)
{
  memcpy((void *)(uintptr_t)address, data, bytes);
  return 0;
}

int cuMemsetD8Async(uint64_t address, unsigned char value, size_t bytes, void *stream)
{
  memset((void *)(uintptr_t)address, value, bytes);
  return 0;
}

int cuModuleLoadData(void **module, const void *image)
{
  if (!strncmp(image, "broken", 6)) return INVALID;
  *module = strdup(image);
  return 0;
}

int cuModuleUnload(void *module)
{
  free(module);
  return 0;
}

/* Machine code holds every name. */
int cuModuleGetFunction(void **function, void *module, const char *name)
{
  *function = strncmp(module, "\177ELF", 4) ? strstr(module, name) : module;
  return *function ? 0 : NOT_FOUND;
}

int cuFuncSetAttribute(void *function, int attribute, int value)
{
  return attribute == 8 && value > 232448 ? 1 : 0;
}

int cuTensorMapEncodeTiled(uint64_t *map, int type, uint32_t rank, void *address, const uint64_t *dims,
                           const uint64_t *strides, const uint32_t *box, const uint32_t *steps,
                           int interleave, int swizzle, int l2_promotion, int fill)
{
  if (rank > 1 && strides[0] % 16) return 1;
  const uint64_t words[16] = {
      (uint64_t)type, rank,      (uint64_t)(uintptr_t)address, dims[0],           dims[rank - 1],
      box[0],         steps[0],  (uint64_t)interleave,         (uint64_t)swizzle, (uint64_t)l2_promotion,
      (uint64_t)fill, strides[0]};
  memcpy(map, words, sizeof words);
  return 0;
}

int cuLaunchKernelEx(const Config *config, void *function, void **arguments, void **extra)
{
  unsigned words[11] = {config->grid[0],
                        config->grid[1],
                        config->grid[2],
                        config->block[0],
                        config->block[1],
                        config->block[2],
                        1,
                        1,
                        1,
                        config->shared,
                        0};
  for (unsigned i = 0; i < config->n; i++)
    if (config->attributes[i].id == 4)
      memcpy(words + 6, config->attributes[i].value.cluster, 12);
    else if (config->attributes[i].id == 6)
      words[10] = (unsigned)config->attributes[i].value.allowed;
  if (!strncmp(function, "crash", 5))
    broken = LAUNCH_FAILED;
  else
    memcpy(*(void **)arguments[0], words, sizeof words);
  return 0;
}
