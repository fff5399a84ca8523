/* The few functions of libcuda.so.1 that memory of a GPU takes, opened at run
 * time. Names, signatures and values are those of CUDA's cuda.h, which keeps a
 * function under its name with _v2 for good; testdata/cuda_layout.c holds them
 * against that header where it is installed. */
#ifndef LAUNCH_VERBS_GPU_H
#define LAUNCH_VERBS_GPU_H

#include <stddef.h>
#include <stdint.h>

/* What returns an int returns a CUresult: 0 is success. A CUdevice is an int, a
 * CUcontext an address, a CUdeviceptr 64 bits. */
struct lv_cuda {
	int (*init)(unsigned int flags);
	int (*error_name)(int error, const char **name);
	int (*by_pci)(int *device, const char *pci);
	int (*attribute)(int *value, int attribute, int device);
	int (*retain)(void **context, int device);
	int (*release)(int device);
	int (*set_current)(void *context);
	int (*synchronize)(void);
	int (*alloc)(unsigned long long *at, size_t size);
	int (*free)(unsigned long long at);
	int (*to_device)(unsigned long long to, const void *from, size_t size);
	int (*to_host)(void *to, unsigned long long from, size_t size);

	/* NULL where the driver is older: 11.7 and 11.3. */
	int (*range_handle)(void *handle, unsigned long long at, size_t size, int type, unsigned long long flags);
	int (*flush)(int target, int scope);
};

enum {
	LV_CUDA_DMABUF_SUPPORTED = 124, /* CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED */
	LV_CUDA_DMABUF_FD = 1,          /* CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD */
	LV_CUDA_CURRENT_CONTEXT = 0,    /* CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX */
	LV_CUDA_TO_OWNER = 100,         /* CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER */

	/* A GPU maps its memory for others in pages of 64 KiB, and no host that CUDA
	 * runs on has larger ones. */
	LV_GPU_PAGE = 64 << 10,
	/* The processor sees the memory through a copy of so much at a time. */
	LV_GPU_PIECE = 1 << 20
};

/* lv_gpu is a GPU whose memory a session uses. */
struct lv_gpu {
	struct lv_cuda cuda;
	int device;
	void *context;
	unsigned long long block; /* as it was allocated; 0: not */
	const char *call; /* the function of CUDA that was called last */
	uint8_t piece[LV_GPU_PIECE];
};

struct lv_session;

/* lv_gpu_load opens libcuda. It returns NULL, or what dlopen said or which
 * function is missing; *missing is 1 when the library itself was not found. */
const char *lv_gpu_load(struct lv_session *s, int *missing);

/* Each of these returns a CUresult, and leaves in s->gpu->call whose it is. A
 * context belongs to a thread, so each makes it the own thread's first.
 *
 * lv_gpu_open finds a GPU by its address, and lv_gpu_alloc allocates as
 * lv_memory_make does. lv_gpu_export makes a DMA-BUF of that; *fd is -1 where
 * this GPU or driver has none. */
int lv_gpu_open(struct lv_session *s, const char *pci);
int lv_gpu_alloc(struct lv_session *s, size_t stride);
int lv_gpu_export(struct lv_session *s, int *fd);
int lv_gpu_write(struct lv_session *s, uint64_t to, const uint8_t *from, size_t length);
int lv_gpu_read(struct lv_session *s, uint8_t *to, uint64_t from, size_t length);

/* lv_gpu_settle waits until all that was written is in the memory: by this
 * process, and by the HCA. */
int lv_gpu_settle(struct lv_session *s);
void lv_gpu_close(struct lv_session *s);

/* lv_gpu_error is CUDA's name for a result, "CUDA_ERROR_NO_DEVICE"; "" where it
 * has none. */
const char *lv_gpu_error(struct lv_session *s, int error);

#endif
