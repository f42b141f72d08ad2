/* The CUDA driver, loaded when asked for: nothing of it is needed to build or to start the program.
 *
 * A Device is one GPU with its primary context and one stream. It belongs to one thread at a time: its
 * context is made current by device_open() and stays so for that thread. Work is queued in order;
 * device_wait() says whether it went well. After a fault of a kernel the context is lost: every later call
 * fails with the same error. */
#pragma once
#include "base/diagnostic.h"
#include "base/number.h"
#include <stdint.h>

/* What the driver says of a GPU. */
typedef struct DeviceFigures {
  char name[256];
  unsigned capability; /* compute capability as assemblers count it: major * 10 + minor */
  unsigned sm_count;
  unsigned shared_per_block; /* bytes: the most a block may ask for */
  uint64_t memory_bytes, l2_bytes;
} DeviceFigures;

/* The target to assemble text of another target for, so that it runs on a GPU of these figures: the same one
 * if the GPU is of that capability, else the GPU's own. ERROR_UNSUPPORTED "wrong-device" if the text is for a
 * newer one, or for features of one capability alone. g_free. */
char *figures_target(const DeviceFigures *figures, const char *target, GError **error);

typedef struct Device Device;

/* Loads the driver (libcuda.so.1, or what ADLGEN_CUDA_LIBRARY names) and opens a GPU by its number.
 * ERROR_MISSING_TOOL "no-driver" says where it looked, "no-gpu" how many there are. */
Device *device_open(unsigned number, GError **error);
void device_close(Device *device);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Device, device_close)

const char *device_name(const Device *device);
/* Compute capability as assemblers count it: major * 10 + minor. */
unsigned device_capability(const Device *device);
/* figures_target() of the device. */
char *device_target(const Device *device, const char *target, GError **error);

/* For programs that use more of the driver than this layer offers, such as bench: the driver's stream
 * (CUstream) that all work here is queued on, and a function of the driver by its exported name, NULL if it
 * has none. Both live as long as the device. */
void *device_stream(const Device *device);
void *device_symbol(const Device *device, const char *name);
/* true if a status that such a function gave is success; else ERROR_MISSING_TOOL "driver-failed" with the driver's words. */
bool device_check(const Device *device, int status, const char *what, GError **error);
/* A figure of the device by the driver's number of the attribute (CUdevice_attribute); 0 if it is unknown. */
int device_attribute(const Device *device, int attribute);

/* ---- memory: addresses of the device ---- */

/* At least 256-byte aligned; 0 bytes give a valid address. 0 with ERROR_UNSUPPORTED if there is not so much.
 */
uint64_t device_allocate(Device *device, uint64_t bytes, GError **error);
void device_release(Device *device, uint64_t address); /* 0 is allowed */
bool device_write(Device *device, uint64_t address, const void *data, uint64_t bytes, GError **error);
bool device_read(Device *device, void *data, uint64_t address, uint64_t bytes, GError **error);
bool device_fill(Device *device, uint64_t address, uint8_t value, uint64_t bytes, GError **error);

/* ---- kernels ---- */

typedef struct DeviceKernel DeviceKernel;

/* Loads machine code. name is for messages; shared: most dynamic shared memory it will be launched with. */
DeviceKernel *device_load(Device *device, const char *name, GBytes *cubin, const char *entry, unsigned shared,
                          GError **error);
void device_unload(DeviceKernel *kernel);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(DeviceKernel, device_unload)

/* A tensor map as the driver encodes it. */
typedef struct DeviceTensorMap {
  _Alignas(64) uint64_t words[16];
} DeviceTensorMap;

/* Innermost dimension first; strides in bytes, without the innermost. */
typedef struct DeviceBox {
  NumberType element;
  unsigned rank;
  uint64_t address, dims[5], strides[4];
  uint32_t box[5], element_strides[5]; /* element_strides 0 counts as 1 */
  unsigned swizzle;                    /* bytes: 0, 32, 64, 128 */
  unsigned interleave;                 /* bytes: 0, 16, 32 */
  unsigned l2_promotion;               /* bytes: 0, 64, 128, 256 */
  bool fill_nan;
} DeviceBox;

bool device_encode(Device *device, const char *name, const DeviceBox *box, DeviceTensorMap *map,
                   GError **error);

typedef struct DeviceLaunch {
  unsigned grid[3], block[3], cluster[3]; /* no dimension of the grid is 0 */
  unsigned shared;                        /* dynamic bytes */
  bool dependent;                         /* may start before the launch before it has ended */
  void **arguments;                       /* one address a parameter of the entry */
} DeviceLaunch;

/* Queues a launch; a fault of the kernel shows at device_wait(). */
bool device_launch(Device *device, const DeviceKernel *kernel, const DeviceLaunch *launch, GError **error);
/* Waits until all queued work is done. ERROR_VERIFY "kernel-fault" if a kernel broke. */
bool device_wait(Device *device, GError **error);
