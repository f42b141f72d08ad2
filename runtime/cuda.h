/* The CUDA driver as functions of a library opened at run time. Private to runtime/.
 *
 * The few functions, types and constants that are needed are declared here, as the driver's own header has
 * them, so that building needs no toolkit. Their values are part of its binary interface and never change. A
 * Driver is plain data; its functions are as thread-safe as the driver's. */
#pragma once
#include "runtime/driver.h"
#include <stddef.h>

enum { DRIVER_SUCCESS = 0, DRIVER_NO_MEMORY = 2, DRIVER_NO_DEVICE = 100 };
enum { FUNCTION_MAX_DYNAMIC_SHARED = 8, FUNCTION_NON_PORTABLE_CLUSTER = 14 };
enum {
  DEVICE_SM_COUNT = 16,
  DEVICE_L2_BYTES = 38,
  DEVICE_CAPABILITY_MAJOR = 75,
  DEVICE_CAPABILITY_MINOR = 76,
  DEVICE_SHARED_PER_BLOCK = 97 /* with the function's attribute set */
};
enum { LAUNCH_COOPERATIVE = 2, LAUNCH_CLUSTER_DIMENSION = 4, LAUNCH_PROGRAMMATIC_SERIALIZATION = 6 };
enum { STREAM_NON_BLOCKING = 1, PORTABLE_CLUSTER = 8 };

typedef struct LaunchAttribute {
  int id, padding;
  union {
    unsigned cluster[3];
    int allowed;
    char bytes[64];
  } value;
} LaunchAttribute;

typedef struct LaunchConfig {
  unsigned grid[3], block[3], shared;
  void *stream;
  LaunchAttribute *attributes;
  unsigned n_attributes;
} LaunchConfig;

/* X(field, symbol, parameters) */
#define DRIVER_FUNCTIONS(X)                                                                                  \
  X(initialize, "cuInit", (unsigned flags))                                                                  \
  X(error_name, "cuGetErrorName", (int status, const char **text))                                           \
  X(error_text, "cuGetErrorString", (int status, const char **text))                                         \
  X(device_count, "cuDeviceGetCount", (int *n))                                                              \
  X(device_get, "cuDeviceGet", (int *device, int number))                                                    \
  X(device_name, "cuDeviceGetName", (char *name, int length, int device))                                    \
  X(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, int device))                       \
  X(context_retain, "cuDevicePrimaryCtxRetain", (void **context, int device))                                \
  X(context_release, "cuDevicePrimaryCtxRelease_v2", (int device))                                           \
  X(context_set, "cuCtxSetCurrent", (void *context))                                                         \
  X(context_get, "cuCtxGetCurrent", (void **context))                                                        \
  X(context_push, "cuCtxPushCurrent_v2", (void *context))                                                    \
  X(context_pop, "cuCtxPopCurrent_v2", (void **context))                                                     \
  X(context_device, "cuCtxGetDevice", (int *device))                                                         \
  X(device_memory, "cuDeviceTotalMem_v2", (size_t * bytes, int device))                                      \
  X(stream_create, "cuStreamCreate", (void **stream, unsigned flags))                                        \
  X(stream_destroy, "cuStreamDestroy_v2", (void *stream))                                                    \
  X(stream_wait, "cuStreamSynchronize", (void *stream))                                                      \
  X(allocate, "cuMemAlloc_v2", (uint64_t * address, size_t bytes))                                           \
  X(release, "cuMemFree_v2", (uint64_t address))                                                             \
  X(write, "cuMemcpyHtoDAsync_v2", (uint64_t address, const void *data, size_t bytes, void *stream))         \
  X(read, "cuMemcpyDtoHAsync_v2", (void *data, uint64_t address, size_t bytes, void *stream))                \
  X(write_now, "cuMemcpyHtoD_v2", (uint64_t address, const void *data, size_t bytes))                        \
  X(fill, "cuMemsetD8Async", (uint64_t address, unsigned char value, size_t bytes, void *stream))            \
  X(module_load, "cuModuleLoadData", (void **module, const void *image))                                     \
  X(module_unload, "cuModuleUnload", (void *module))                                                         \
  X(module_function, "cuModuleGetFunction", (void **function, void *module, const char *name))               \
  X(function_set, "cuFuncSetAttribute", (void *function, int attribute, int value))

/* Functions of newer drivers, looked for when a kernel needs them. */
typedef int (*EncodeTiled)(DeviceTensorMap *map, int type, uint32_t rank, void *address, const uint64_t *dims,
                           const uint64_t *strides, const uint32_t *box, const uint32_t *steps,
                           int interleave, int swizzle, int l2_promotion, int fill);
typedef int (*ReplaceAddress)(DeviceTensorMap *map, void *address);
typedef int (*LaunchEx)(const LaunchConfig *config, void *function, void **arguments, void **extra);

typedef struct Driver {
  void *library;
#define X(field, symbol, parameters) int(*field) parameters;
  DRIVER_FUNCTIONS(X)
#undef X
  EncodeTiled encode;             /* NULL: too old for tensor maps */
  ReplaceAddress replace_address; /* likewise */
  LaunchEx launch;
} Driver;

/* Opens the library that ADLGEN_CUDA_LIBRARY names, or libcuda.so.1 where the system's loader and containers
 * have it, and starts the driver. It is never closed: it does not bear being unloaded while its threads run.
 * ERROR_MISSING_TOOL "no-driver" says where was looked. A machine without a GPU is no error here. */
bool driver_open(Driver *driver, GError **error);
/* Number of GPUs, 0 if there is none. */
int driver_device_count(const Driver *driver);

/* Sets *error to what was tried and the driver's words for the status; always false. */
bool driver_failed(const Driver *driver, int status, ErrorCode code, const char *code_id, const char *what,
                   GError **error);
/* true if the status is success, else driver_failed() with ERROR_MISSING_TOOL "driver-failed". */
bool driver_check(const Driver *driver, int status, const char *what, GError **error);

/* ERROR_MISSING_TOOL "no-gpu" if there is no such GPU. handle: the driver's CUdevice. */
bool driver_device(const Driver *driver, unsigned number, int *handle, GError **error);
void driver_figures(const Driver *driver, int handle, DeviceFigures *figures);

/* As device_encode(). */
bool driver_encode(const Driver *driver, const char *name, const DeviceBox *box, DeviceTensorMap *map,
                   GError **error);
void launch_add_attribute(LaunchConfig *config, int id, const void *value, size_t bytes);
