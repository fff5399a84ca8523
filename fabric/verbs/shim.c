//go:build linux && cgo && !noverbs

#define _GNU_SOURCE /* dlvsym */
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>

#include "shim.h"

/* All five carry this version since libibverbs 1.1; asking for it by name
 * pins the ABI, whatever the library's default becomes. */
#define ABI "IBVERBS_1.1"

static void *symbol(void *handle, const char *name)
{
#ifdef __GLIBC__
	return dlvsym(handle, name, ABI);
#else
	return dlsym(handle, name);
#endif
}

const char *verbs_load(struct verbs *v, int *missing)
{
	*missing = 0;
	v->handle = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	if (v->handle == NULL) {
		*missing = 1;
		return dlerror();
	}
	/* POSIX lets an object pointer of dlsym be used as a function pointer. */
	*(void **)&v->get_device_list = symbol(v->handle, "ibv_get_device_list");
	*(void **)&v->free_device_list = symbol(v->handle, "ibv_free_device_list");
	*(void **)&v->get_device_name = symbol(v->handle, "ibv_get_device_name");
	*(void **)&v->open_device = symbol(v->handle, "ibv_open_device");
	*(void **)&v->close_device = symbol(v->handle, "ibv_close_device");
	if (v->get_device_list && v->free_device_list && v->get_device_name &&
	    v->open_device && v->close_device)
		return NULL;
	return "libibverbs.so.1 lacks a function of " ABI;
}

struct ibv_device **verbs_list(struct verbs *v, int *count, int *err)
{
	struct ibv_device **list;

	*count = 0;
	errno = 0;
	list = v->get_device_list(count);
	*err = list == NULL ? errno : 0;
	return list;
}

const char *verbs_name(struct verbs *v, struct ibv_device **list, int i)
{
	return v->get_device_name(list[i]);
}

int verbs_try(struct verbs *v, struct ibv_device **list, int i)
{
	struct ibv_context *context;

	errno = 0;
	context = v->open_device(list[i]);
	if (context == NULL)
		return errno != 0 ? errno : EIO;
	v->close_device(context);
	return 0;
}

void verbs_free(struct verbs *v, struct ibv_device **list)
{
	v->free_device_list(list);
}
