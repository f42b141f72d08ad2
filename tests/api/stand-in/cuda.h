/* What examples/c/launch_gemm.c uses of the driver's header, so that it is compiled where there is no
 * toolkit. */
#pragma once
#include <stddef.h>

typedef int CUresult, CUdevice;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef unsigned long long CUdeviceptr;
enum { CUDA_SUCCESS = 0, CU_STREAM_NON_BLOCKING = 1 };

#define cuMemAlloc   cuMemAlloc_v2
#define cuMemcpyDtoH cuMemcpyDtoH_v2
#define cuMemsetD16  cuMemsetD16_v2
CUresult cuInit(unsigned flags);
CUresult cuDeviceGet(CUdevice *device, int number);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuStreamCreate(CUstream *stream, unsigned flags);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes);
CUresult cuMemcpyDtoH(void *data, CUdeviceptr address, size_t bytes);
CUresult cuMemsetD16(CUdeviceptr address, unsigned short value, size_t n);
