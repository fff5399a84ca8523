/* What gpu.h says of libcuda, against CUDA's own header. */
#include <cuda.h>

#include "../gpu.h"

#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)
#define VALUE(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)
#define NAME(name, exported) _Static_assert(__builtin_strcmp(TEXT(name), exported) == 0, exported)

VALUE(LV_CUDA_DMABUF_SUPPORTED, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);
VALUE(LV_CUDA_DMABUF_FD, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
VALUE(LV_CUDA_CURRENT_CONTEXT, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX);
VALUE(LV_CUDA_TO_OWNER, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
VALUE(0, CUDA_SUCCESS);
VALUE(2, CUDA_ERROR_OUT_OF_MEMORY);
VALUE(34, CUDA_ERROR_STUB_LIBRARY);
VALUE(46, CUDA_ERROR_DEVICE_UNAVAILABLE);
VALUE(100, CUDA_ERROR_NO_DEVICE);
VALUE(101, CUDA_ERROR_INVALID_DEVICE);
VALUE(214, CUDA_ERROR_ECC_UNCORRECTABLE);
VALUE(802, CUDA_ERROR_SYSTEM_NOT_READY);
VALUE(803, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
VALUE(804, CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE);
VALUE(999, CUDA_ERROR_UNKNOWN);

VALUE(sizeof(CUresult), sizeof(int));
VALUE(sizeof(CUdevice), sizeof(int));
VALUE(sizeof(CUcontext), sizeof(void *));
VALUE(sizeof(CUdeviceptr), sizeof(unsigned long long));
VALUE(sizeof(CUmemRangeHandleType), sizeof(int));
VALUE(sizeof(CUdevice_attribute), sizeof(int));
VALUE(sizeof(CUflushGPUDirectRDMAWritesTarget), sizeof(int));
VALUE(sizeof(CUflushGPUDirectRDMAWritesScope), sizeof(int));

NAME(cuInit, "cuInit");
NAME(cuGetErrorName, "cuGetErrorName");
NAME(cuDeviceGetByPCIBusId, "cuDeviceGetByPCIBusId");
NAME(cuDeviceGetAttribute, "cuDeviceGetAttribute");
NAME(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
NAME(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2");
NAME(cuCtxSetCurrent, "cuCtxSetCurrent");
NAME(cuCtxSynchronize, "cuCtxSynchronize");
NAME(cuMemAlloc, "cuMemAlloc_v2");
NAME(cuMemFree, "cuMemFree_v2");
NAME(cuMemcpyHtoD, "cuMemcpyHtoD_v2");
NAME(cuMemcpyDtoH, "cuMemcpyDtoH_v2");
NAME(cuMemGetHandleForAddressRange, "cuMemGetHandleForAddressRange");
NAME(cuFlushGPUDirectRDMAWrites, "cuFlushGPUDirectRDMAWrites");

/* A declaration that differs from the header's is an error. */
CUresult cuInit(unsigned int);
CUresult cuGetErrorName(CUresult, const char **);
CUresult cuDeviceGetByPCIBusId(CUdevice *, const char *);
CUresult cuDeviceGetAttribute(int *, CUdevice_attribute, CUdevice);
CUresult cuDevicePrimaryCtxRetain(CUcontext *, CUdevice);
CUresult cuDevicePrimaryCtxRelease(CUdevice);
CUresult cuCtxSetCurrent(CUcontext);
CUresult cuCtxSynchronize(void);
CUresult cuMemAlloc(CUdeviceptr *, size_t);
CUresult cuMemFree(CUdeviceptr);
CUresult cuMemcpyHtoD(CUdeviceptr, const void *, size_t);
CUresult cuMemcpyDtoH(void *, CUdeviceptr, size_t);
CUresult cuMemGetHandleForAddressRange(void *, CUdeviceptr, size_t, CUmemRangeHandleType, unsigned long long);
CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget, CUflushGPUDirectRDMAWritesScope);
