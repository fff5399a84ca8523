//go:build linux && cgo && !nonvml

package gpu

/*
#include <dlfcn.h>
#include <stddef.h>

// launch_cu_init returns what cuInit returns, or -1 without a libcuda.
static int launch_cu_init(void)
{
	int (*init)(unsigned int);
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

	if (lib == NULL)
		return -1;
	*(void **)&init = dlsym(lib, "cuInit");
	return init == NULL ? -1 : init(0);
}
*/
import "C"

// startCUDA returns the result of cuInit, or 0 where it cannot be asked.
func startCUDA() int { return max(0, int(C.launch_cu_init())) }
