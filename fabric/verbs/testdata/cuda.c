/* A libcuda with one GPU at 0000:1b:00.0, whose memory is where the processor
 * must not look: its addresses are reserved without access, and what lies there
 * is seen by the calls below, and by fake.c as by a device: through a DMA-BUF,
 * which is a descriptor of it, or through fake_peer. As broken as "mode" says.
 * With -DPLAIN it is memory of the process, which real HCAs take. */
#include "mode.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIZE = 256 << 20, PAGE = 64 << 10, NOT_INITIALIZED = 3, INVALID_VALUE = 1, INVALID_DEVICE = 101, INVALID_CONTEXT = 201, NOT_SUPPORTED = 801 };

static int ready, retained, descriptor = -1, context;
static char *shown, *inner; /* the addresses of the GPU, and the memory itself */
static size_t taken, live;
static int unsettled; /* a copy to the device is only on its way */
static __thread void *own;

/* result is what a call returns by the mode. */
static int result(const char *word)
{
	long n = mode(word);

	return n > 0 ? (int)n : 0;
}

int cuInit(unsigned flags)
{
	if (mode("cuda-hangs") > 0)
		for (;;)
			pause();
	if (mode("cuda-crashes") > 0)
		*(volatile int *)8 = 0;
	if (flags != 0)
		return INVALID_VALUE;
	if (result("cuda-init"))
		return result("cuda-init");
	__atomic_store_n(&ready, 1, __ATOMIC_SEQ_CST);
	return 0;
}

int cuGetErrorName(int error, const char **name)
{
	static const struct {
		int error;
		const char *name;
	} all[] = {
		{1, "CUDA_ERROR_INVALID_VALUE"}, {2, "CUDA_ERROR_OUT_OF_MEMORY"}, {34, "CUDA_ERROR_STUB_LIBRARY"},
		{46, "CUDA_ERROR_DEVICE_UNAVAILABLE"}, {100, "CUDA_ERROR_NO_DEVICE"}, {101, "CUDA_ERROR_INVALID_DEVICE"},
		{201, "CUDA_ERROR_INVALID_CONTEXT"}, {700, "CUDA_ERROR_ILLEGAL_ADDRESS"}, {801, "CUDA_ERROR_NOT_SUPPORTED"},
		{802, "CUDA_ERROR_SYSTEM_NOT_READY"}, {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"},
	};
	size_t i;

	for (i = 0; i < sizeof all / sizeof all[0]; i++)
		if (all[i].error == error) {
			*name = all[i].name;
			return 0;
		}
	*name = NULL;
	return INVALID_VALUE;
}

int cuDeviceGetByPCIBusId(int *device, const char *pci)
{
	if (!ready)
		return NOT_INITIALIZED;
	if (result("cuda-device"))
		return result("cuda-device");
	if (strcmp(pci, "0000:1b:00.0") != 0)
		return INVALID_DEVICE;
	*device = 7;
	return 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	if (attribute != 124 || device != 7 || mode("cuda-old") > 0)
		return INVALID_VALUE;
	*value = mode("dmabuf") == 0 ? 0 : 1;
	return 0;
}

int cuDevicePrimaryCtxRetain(void **c, int device)
{
	if (device != 7)
		return INVALID_DEVICE;
	if (result("cuda-retain"))
		return result("cuda-retain");
	__atomic_add_fetch(&retained, 1, __ATOMIC_SEQ_CST);
	*c = &context;
	return 0;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
	if (device != 7 || __atomic_sub_fetch(&retained, 1, __ATOMIC_SEQ_CST) < 0)
		abort();
	return 0;
}

int cuCtxSetCurrent(void *c)
{
	own = c;
	return c == &context && __atomic_load_n(&retained, __ATOMIC_SEQ_CST) > 0 ? 0 : INVALID_CONTEXT;
}

int cuCtxSynchronize(void)
{
	if (own == NULL)
		return INVALID_CONTEXT;
	__atomic_store_n(&unsettled, 0, __ATOMIC_SEQ_CST);
	return result("cuda-synchronize");
}

static void room(void)
{
	static int lock;
	int ok;

	while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE))
		;
	if (shown == NULL) {
		descriptor = memfd_create("gpu", MFD_CLOEXEC);
		ok = descriptor >= 0 && ftruncate(descriptor, SIZE) == 0;
		inner = ok ? mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0) : NULL;
		shown = ok ? mmap(NULL, SIZE + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) : NULL;
		if (!ok || inner == MAP_FAILED || shown == MAP_FAILED)
			abort();
		shown += PAGE - (uintptr_t)shown % PAGE;
#ifdef PLAIN
		shown = inner;
#endif
	}
	__atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
}

/* Nothing is aligned: as a small piece of a larger block is not. */
int cuMemAlloc_v2(unsigned long long *at, size_t size)
{
	size_t n;

	if (own == NULL)
		return INVALID_CONTEXT;
	if (result("cuda-alloc"))
		return result("cuda-alloc");
	room();
	n = __atomic_fetch_add(&taken, (size + 1023) & ~(size_t)511, __ATOMIC_SEQ_CST);
	if (n + size + 512 > SIZE)
		return 2;
	__atomic_add_fetch(&live, 1, __ATOMIC_SEQ_CST);
	*at = (uintptr_t)shown + n + 512;
	return 0;
}

int cuMemFree_v2(unsigned long long at)
{
	if (own == NULL || at < (uintptr_t)shown || at >= (uintptr_t)shown + SIZE)
		abort();
	if (__atomic_sub_fetch(&live, 1, __ATOMIC_SEQ_CST) == 0)
		__atomic_store_n(&taken, 0, __ATOMIC_SEQ_CST);
	return 0;
}

static char *behind(unsigned long long at, size_t size)
{
	if (shown == NULL || at < (uintptr_t)shown || at + size > (uintptr_t)shown + SIZE)
		return NULL;
	return inner + (at - (uintptr_t)shown);
}

int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t size)
{
	char *at = behind(to, size);

	if (own == NULL)
		return INVALID_CONTEXT;
	if (at == NULL)
		return INVALID_VALUE;
	if (result("cuda-write"))
		return result("cuda-write");
	memcpy(at, from, size);
	__atomic_store_n(&unsettled, 1, __ATOMIC_SEQ_CST);
	return 0;
}

int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t size)
{
	char *at = behind(from, size);

	if (own == NULL)
		return INVALID_CONTEXT;
	if (at == NULL)
		return INVALID_VALUE;
	if (result("cuda-read"))
		return result("cuda-read");
	memcpy(to, at, size);
	return 0;
}

#ifndef OLD
int cuMemGetHandleForAddressRange(void *handle, unsigned long long at, size_t size, int type, unsigned long long flags)
{
	char path[64];
	int fd;

	if (own == NULL)
		return INVALID_CONTEXT;
	if (result("cuda-export"))
		return result("cuda-export");
	if (type != 1 || flags != 0 || at % PAGE != 0 || size % PAGE != 0 || behind(at, size) == NULL)
		return INVALID_VALUE;
	/* One of its own, since what copies of a descriptor share is where it stands:
	 * here at the beginning of the buffer. */
	snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || lseek(fd, (off_t)(at - (uintptr_t)shown), SEEK_SET) < 0)
		abort();
	*(int *)handle = fd;
	return 0;
}

int cuFlushGPUDirectRDMAWrites(int target, int scope)
{
	return target == 0 && scope == 100 ? NOT_SUPPORTED : INVALID_VALUE;
}
#endif

/* fake_peer is where a device finds what the GPU has at an address: what a
 * kernel's module tells it. */
void *fake_peer(uint64_t at, size_t size)
{
	/* Sending what has not yet arrived is what lv_gpu_settle is for. */
	if (__atomic_load_n(&unsettled, __ATOMIC_SEQ_CST))
		return NULL;
	return behind(at, size);
}

/* fake_left is what was not given back. */
long fake_left(void)
{
	return (long)live + retained;
}
