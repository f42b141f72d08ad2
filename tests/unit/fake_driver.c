/* A stand-in for the CUDA driver: device memory is host memory, and a kernel writes what it was launched with
 * to its first argument. A module whose text starts with "broken" is refused; a kernel named "crash" breaks
 * the stream. Kernels of real machine code do nothing. Calls are counted in `fake` (fake_driver.h). */
#include "fake_driver.h"
#include <stdatomic.h>
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
Fake fake = {.devices = 2, .sm_count = 132, .capability = 90, .shared = 232448, .memory = (size_t)1 << 37};
static int contexts[2][2]; /* of each device: the primary one, and one of the caller's own */
static _Thread_local void *stack[8];
static _Thread_local unsigned depth;

void *fake_context(int device, int own)
{
  return &contexts[device][own];
}

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
  *n = fake.devices;
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
  switch (attribute) {
  case 16: *value = fake.sm_count; return 0;
  case 38: *value = 50 << 20; return 0;
  case 75: *value = fake.capability / 10; return 0;
  case 76: *value = fake.capability % 10; return 0;
  case 97: *value = fake.shared; return 0;
  default: *value = 0; return 0;
  }
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
  *context = fake_context(device, 0);
  atomic_fetch_add(&fake.retained, 1);
  return 0;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
  atomic_fetch_sub(&fake.retained, 1);
  broken = 0;
  return 0;
}

int cuCtxSetCurrent(void *context)
{
  depth = context != NULL;
  stack[0] = context;
  return 0;
}

int cuCtxGetCurrent(void **context)
{
  *context = depth ? stack[depth - 1] : NULL;
  return 0;
}

int cuCtxPushCurrent_v2(void *context)
{
  if (depth == sizeof stack / sizeof *stack) return 1;
  stack[depth++] = context;
  atomic_fetch_add(&fake.pushes, 1);
  return 0;
}

int cuCtxPopCurrent_v2(void **context)
{
  if (!depth) return 201;
  *context = stack[--depth];
  return 0;
}

int cuCtxGetDevice(int *device)
{
  if (!depth) return 201;
  *device = stack[depth - 1] >= (void *)contexts[1];
  return 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
  *bytes = fake.memory;
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
  atomic_fetch_add(&fake.allocations, 1);
  *address =
      bytes > UINT64_C(1) << 40 ? 0 : (uint64_t)(uintptr_t)aligned_alloc(256, (bytes + 255) / 256 * 256);
  return *address ? 0 : 2;
}

int cuMemFree_v2(uint64_t address)
{
  atomic_fetch_sub(&fake.allocations, 1);
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

int cuMemcpyDtoH_v2(void *data, uint64_t address, size_t bytes)
{
  memcpy(data, (void *)(uintptr_t)address, bytes);
  return 0;
}

int cuMemsetD16_v2(uint64_t address, unsigned short value, size_t n)
{
  for (size_t i = 0; i < n; i++)
    ((unsigned short *)(uintptr_t)address)[i] = value;
  return 0;
}

int cuMemcpyHtoD_v2(uint64_t address, const void *data, size_t bytes)
{
  memcpy((void *)(uintptr_t)address, data, bytes);
  return 0;
}

int cuMemsetD8Async(uint64_t address, unsigned char value, size_t bytes, void *stream)
{
  atomic_fetch_add(&fake.fills, 1);
  memset((void *)(uintptr_t)address, value, bytes);
  return 0;
}

int cuModuleLoadData(void **module, const void *image)
{
  if (!strncmp(image, "broken", 6)) return INVALID;
  *module = strdup(image);
  atomic_fetch_add(&fake.modules, 1);
  return 0;
}

int cuModuleUnload(void *module)
{
  free(module);
  atomic_fetch_sub(&fake.modules, 1);
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
  FakeMap *record = &fake.encoded[atomic_fetch_add(&fake.encodes, 1) % FAKE_LAUNCHES];
  *record = rank > 1 ? (FakeMap){dims[1], box[1]} : (FakeMap){0};
  const uint64_t words[16] = {
      (uint64_t)type, rank,      (uint64_t)(uintptr_t)address, dims[0],           dims[rank - 1],
      box[0],         steps[0],  (uint64_t)interleave,         (uint64_t)swizzle, (uint64_t)l2_promotion,
      (uint64_t)fill, strides[0]};
  memcpy(map, words, sizeof words);
  return 0;
}

int cuTensorMapReplaceAddress(uint64_t *map, void *address)
{
  atomic_fetch_add(&fake.replaces, 1);
  map[2] = (uint64_t)(uintptr_t)address;
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
  FakeLaunch *record = &fake.launched[atomic_fetch_add(&fake.launches, 1) % FAKE_LAUNCHES];
  memcpy(record->words, words, sizeof words);
  record->stream = config->stream;
  record->context = depth ? stack[depth - 1] : NULL;
  memcpy(record->first, arguments ? arguments[0] : words, sizeof record->first);
  if (fake.refuse) return fake.refuse;
  if (!memcmp(function, "\177ELF", 4)) return 0;
  if (!strncmp(function, "crash", 5))
    broken = LAUNCH_FAILED;
  else
    memcpy(*(void **)arguments[0], words, sizeof words);
  return 0;
}
