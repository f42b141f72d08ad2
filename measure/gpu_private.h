/* What the files of bench/gpu.h share. */
#pragma once
#include "measure/gpu.h"

/* Functions of the driver beside those of runtime/driver. X(field, symbol, parameters) */
#define BENCH_DRIVER_FUNCTIONS(X)                                                                            \
  X(error_name, "cuGetErrorName", (int status, const char **text))                                           \
  X(driver_version, "cuDriverGetVersion", (int *version))                                                    \
  X(memory_info, "cuMemGetInfo_v2", (size_t * available, size_t * total))                                    \
  X(bus_id, "cuDeviceGetPCIBusId", (char *text, int length, int device))                                     \
  X(copy, "cuMemcpyDtoDAsync_v2", (uint64_t to, uint64_t from, size_t bytes, void *stream))

typedef struct BenchDriver {
#define X(field, symbol, parameters) int(*field) parameters;
  BENCH_DRIVER_FUNCTIONS(X)
#undef X
} BenchDriver;

typedef enum {
  SUPPORT_FILL,
  SUPPORT_READ,
  SUPPORT_EMPTY,
  SUPPORT_SIGNS,
  SUPPORT_PROJECT_ROWS,
  SUPPORT_PROJECT_COLUMNS,
  SUPPORT_COUNT
} SupportKernel;

struct BenchGpu {
  Device *device;
  DeviceRecorder *recorder;
  BenchDriver driver;
  unsigned number, sms, driver_version;
  uint64_t l2_bytes, memory_bytes;
  unsigned clock_mhz;
  char bus_id[32];
  DeviceKernel *support[SUPPORT_COUNT];
  uint64_t flush, flush_bytes; /* read to clean L2; its second half is what memset writes */
  uint64_t sink;
  uint64_t overwritten; /* what bench_gpu_overwrite() writes; 0: none yet */
};

/* An entry of a file of bench/kernels; shared: most dynamic shared memory of its launches. */
DeviceKernel *bench_support_load(BenchGpu *gpu, const char *file, const char *entry, unsigned shared,
                                 GError **error);
/* A status of the driver as an error; true if it is success. */
bool bench_driver_check(const BenchGpu *gpu, int status, const char *what, GError **error);
