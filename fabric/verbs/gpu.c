//go:build linux && cgo && !noverbs

#include <dlfcn.h>
#include <stdlib.h>

#include "session.h"

const char *lv_gpu_load(struct lv_session *s, int *missing)
{
	struct lv_gpu *g = calloc(1, sizeof *g);
	struct lv_cuda *c = &g->cuda;
	struct {
		void *at;
		const char *name;
		int needed;
	} all[] = {
		{&c->init, "cuInit", 1},
		{&c->error_name, "cuGetErrorName", 1},
		{&c->by_pci, "cuDeviceGetByPCIBusId", 1},
		{&c->attribute, "cuDeviceGetAttribute", 1},
		{&c->retain, "cuDevicePrimaryCtxRetain", 1},
		{&c->release, "cuDevicePrimaryCtxRelease_v2", 0},
		{&c->set_current, "cuCtxSetCurrent", 1},
		{&c->synchronize, "cuCtxSynchronize", 1},
		{&c->alloc, "cuMemAlloc_v2", 1},
		{&c->free, "cuMemFree_v2", 1},
		{&c->to_device, "cuMemcpyHtoD_v2", 1},
		{&c->to_host, "cuMemcpyDtoH_v2", 1},
		{&c->range_handle, "cuMemGetHandleForAddressRange", 0},
		{&c->flush, "cuFlushGPUDirectRDMAWrites", 0},
	};
	void *handle;
	size_t i;

	s->gpu = g;
	*missing = 0;
	if (g == NULL)
		return "no memory for it";
	handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (handle == NULL) {
		*missing = 1;
		return dlerror();
	}
	/* It does not survive a dlclose, so it remains loaded. */
	for (i = 0; i < sizeof all / sizeof all[0]; i++) {
		*(void **)all[i].at = dlsym(handle, all[i].name);
		if (all[i].needed && *(void **)all[i].at == NULL)
			return all[i].name;
	}
	return NULL;
}

/* CALL makes a call and records its name. */
#define CALL(g, name, does) ((g)->call = (name), (g)->cuda.does)

static int current(struct lv_gpu *g)
{
	return CALL(g, "cuCtxSetCurrent", set_current(g->context));
}

int lv_gpu_open(struct lv_session *s, const char *pci)
{
	struct lv_gpu *g = s->gpu;
	int error = CALL(g, "cuInit", init(0));

	if (error == 0)
		error = CALL(g, "cuDeviceGetByPCIBusId", by_pci(&g->device, pci));
	/* CUDA's runtime uses the primary context too: a second one would take more
	 * memory. */
	if (error == 0)
		error = CALL(g, "cuDevicePrimaryCtxRetain", retain(&g->context, g->device));
	if (error == 0)
		error = current(g);
	return error;
}

static uint64_t whole(uint64_t n)
{
	return (n + LV_GPU_PAGE - 1) & ~(uint64_t)(LV_GPU_PAGE - 1);
}

int lv_gpu_alloc(struct lv_session *s, size_t stride)
{
	struct lv_gpu *g = s->gpu;
	int error = current(g);

	s->stride = stride;
	s->length = stride * (size_t)(1 + s->qps);
	if (error == 0) /* room to begin at a page, and to end at one */
		error = CALL(g, "cuMemAlloc", alloc(&g->block, (size_t)whole(s->length) + LV_GPU_PAGE));
	if (error != 0) {
		g->block = 0;
		return error;
	}
	s->at = whole(g->block);
	return 0;
}

int lv_gpu_export(struct lv_session *s, int *fd)
{
	struct lv_gpu *g = s->gpu;
	int can = 0, error = current(g);

	*fd = -1;
	/* A driver that does not know the attribute reports it as invalid. */
	if (error != 0 || g->cuda.range_handle == NULL || g->cuda.attribute(&can, LV_CUDA_DMABUF_SUPPORTED, g->device) != 0 || !can)
		return error;
	error = CALL(g, "cuMemGetHandleForAddressRange", range_handle(fd, s->at, (size_t)whole(s->length), LV_CUDA_DMABUF_FD, 0));
	if (error != 0)
		*fd = -1;
	return error;
}

int lv_gpu_write(struct lv_session *s, uint64_t to, const uint8_t *from, size_t length)
{
	int error = current(s->gpu);

	return error != 0 ? error : CALL(s->gpu, "cuMemcpyHtoD", to_device(to, from, length));
}

int lv_gpu_read(struct lv_session *s, uint8_t *to, uint64_t from, size_t length)
{
	int error = current(s->gpu);

	return error != 0 ? error : CALL(s->gpu, "cuMemcpyDtoH", to_host(to, from, length));
}

int lv_gpu_settle(struct lv_session *s)
{
	struct lv_gpu *g = s->gpu;
	int error = current(g);

	/* A copy from pageable memory returns when it has been read, not written. */
	if (error == 0)
		error = CALL(g, "cuCtxSynchronize", synchronize());
	/* If it is not supported, nothing has to be flushed, or nothing can be. */
	if (error == 0 && g->cuda.flush != NULL)
		g->cuda.flush(LV_CUDA_CURRENT_CONTEXT, LV_CUDA_TO_OWNER);
	return error;
}

void lv_gpu_close(struct lv_session *s)
{
	struct lv_gpu *g = s->gpu;

	if (g == NULL)
		return;
	if (g->block != 0 && current(g) == 0)
		g->cuda.free(g->block);
	if (g->context != NULL && g->cuda.release != NULL)
		g->cuda.release(g->device);
	free(g);
	s->gpu = NULL;
}

const char *lv_gpu_error(struct lv_session *s, int error)
{
	const char *name = NULL;

	if (s->gpu->cuda.error_name(error, &name) != 0 || name == NULL)
		return "";
	return name;
}
