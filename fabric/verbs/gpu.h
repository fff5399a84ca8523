/* The functions of libcuda.so.1 for memory of a GPU, opened at run time. Names,
 * signatures and values are those of CUDA's cuda.h, in which a name with _v2 never
 * changes its meaning. testdata/cuda_layout.c compares them with that header if it is
 * installed. */
#ifndef LAUNCH_VERBS_GPU_H
#define LAUNCH_VERBS_GPU_H

#include <stddef.h>
#include <stdint.h>

/* An int result is a CUresult: 0 is success. A CUdevice is an int, a CUcontext an
 * address, a CUdeviceptr 64 bits. */
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

	/* NULL if the driver is older: than 11.7 and 11.3. */
	int (*range_handle)(void *handle, unsigned long long at, size_t size, int type, unsigned long long flags);
	int (*flush)(int target, int scope);
};

enum {
	LV_CUDA_DMABUF_SUPPORTED = 124, /* CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED */
	LV_CUDA_DMABUF_FD = 1,          /* CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD */
	LV_CUDA_CURRENT_CONTEXT = 0,    /* CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX */
	LV_CUDA_TO_OWNER = 100,         /* CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER */

	/* A GPU maps its memory for others in pages of 64 KiB, and no host for CUDA has
	 * larger ones. */
	LV_GPU_PAGE = 64 << 10,
	/* The processor copies this much of the memory at a time. */
	LV_GPU_PIECE = 1 << 20
};

/* lv_gpu is a GPU whose memory a session uses. */
struct lv_gpu {
	struct lv_cuda cuda;
	int device;
	void *context;
	unsigned long long block; /* as allocated; 0: not allocated */
	const char *call; /* the function of CUDA that was called last */
	uint8_t piece[LV_GPU_PIECE];
};

struct lv_session;

/* lv_gpu_load opens libcuda. It returns NULL, the error of dlopen, or the missing
 * function; *missing is 1 if the library itself was not found. */
const char *lv_gpu_load(struct lv_session *s, int *missing);

/* Each of these returns a CUresult, and sets s->gpu->call to the function of CUDA. A
 * context belongs to a thread, so each sets it for its own thread first.
 *
 * lv_gpu_open finds a GPU by its address, and lv_gpu_alloc allocates memory as
 * lv_memory_make does. lv_gpu_export makes a DMA-BUF of it; *fd is -1 if this GPU or
 * driver has none. */
int lv_gpu_open(struct lv_session *s, const char *pci);
int lv_gpu_alloc(struct lv_session *s, size_t stride);
int lv_gpu_export(struct lv_session *s, int *fd);
int lv_gpu_write(struct lv_session *s, uint64_t to, const uint8_t *from, size_t length);
int lv_gpu_read(struct lv_session *s, uint8_t *to, uint64_t from, size_t length);

/* lv_gpu_settle waits until all writes of this process and of the HCA are in the
 * memory. */
int lv_gpu_settle(struct lv_session *s);
void lv_gpu_close(struct lv_session *s);

/* lv_gpu_error returns CUDA's name for a result, "CUDA_ERROR_NO_DEVICE"; "" if there
 * is none. */
const char *lv_gpu_error(struct lv_session *s, int error);

#endif
