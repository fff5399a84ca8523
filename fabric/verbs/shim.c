//go:build linux && cgo && !noverbs

#define _GNU_SOURCE /* dlvsym */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shim.h"

/* The version in the name of a function pins the ABI, whatever the library's default
 * becomes. */
static void *symbol(void *handle, const char *name, const char *version)
{
#ifdef __GLIBC__
	return dlvsym(handle, name, version);
#else
	return dlsym(handle, name);
#endif
}

const char *lv_load(struct lv_lib *lib, int *missing)
{
	/* Through a void **, since POSIX allows dlsym's result to be a function. */
	struct {
		void *at;
		const char *name, *version;
	} all[] = {
		{&lib->get_device_list, "ibv_get_device_list", "IBVERBS_1.1"},
		{&lib->free_device_list, "ibv_free_device_list", "IBVERBS_1.1"},
		{&lib->get_device_name, "ibv_get_device_name", "IBVERBS_1.1"},
		{&lib->open_device, "ibv_open_device", "IBVERBS_1.1"},
		{&lib->close_device, "ibv_close_device", "IBVERBS_1.1"},
		{&lib->query_device, "ibv_query_device", "IBVERBS_1.1"},
		{&lib->query_port, "ibv_query_port", "IBVERBS_1.1"},
		{&lib->query_gid, "ibv_query_gid", "IBVERBS_1.1"},
		{&lib->query_pkey, "ibv_query_pkey", "IBVERBS_1.1"},
		{&lib->query_gid_table, "_ibv_query_gid_table", "IBVERBS_1.11"},
		{&lib->alloc_pd, "ibv_alloc_pd", "IBVERBS_1.1"},
		{&lib->dealloc_pd, "ibv_dealloc_pd", "IBVERBS_1.1"},
		{&lib->reg_mr, "ibv_reg_mr", "IBVERBS_1.1"},
		{&lib->reg_dmabuf_mr, "ibv_reg_dmabuf_mr", "IBVERBS_1.12"},
		{&lib->dereg_mr, "ibv_dereg_mr", "IBVERBS_1.1"},
		{&lib->create_cq, "ibv_create_cq", "IBVERBS_1.1"},
		{&lib->destroy_cq, "ibv_destroy_cq", "IBVERBS_1.1"},
		{&lib->create_qp, "ibv_create_qp", "IBVERBS_1.1"},
		{&lib->modify_qp, "ibv_modify_qp", "IBVERBS_1.1"},
		{&lib->destroy_qp, "ibv_destroy_qp", "IBVERBS_1.1"},
	};
	size_t i;

	*missing = 0;
	lib->handle = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	if (lib->handle == NULL) {
		*missing = 1;
		return dlerror();
	}
	for (i = 0; i < sizeof all / sizeof all[0]; i++)
		*(void **)all[i].at = symbol(lib->handle, all[i].name, all[i].version);
	if (lib->get_device_list && lib->free_device_list && lib->get_device_name && lib->open_device && lib->close_device)
		return NULL;
	return "libibverbs.so.1 lacks a function of IBVERBS_1.1";
}

int lv_can_query(struct lv_lib *lib)
{
	return lib->query_device && lib->query_port && lib->query_gid && lib->query_pkey;
}

int lv_can_talk(struct lv_lib *lib)
{
	return lv_can_query(lib) && lib->alloc_pd && lib->dealloc_pd && lib->reg_mr && lib->dereg_mr && lib->create_cq &&
		lib->destroy_cq && lib->create_qp && lib->modify_qp && lib->destroy_qp;
}

struct lv_device **lv_list(struct lv_lib *lib, int *count, int *err)
{
	struct lv_device **list;
	int claimed = 0;

	*count = 0;
	errno = 0;
	list = lib->get_device_list(&claimed);
	*err = list == NULL ? errno : 0;
	/* The list ends with a NULL, so a wrong count is harmless. */
	while (list != NULL && *count < claimed && list[*count] != NULL)
		(*count)++;
	return list;
}

const char *lv_name(struct lv_lib *lib, struct lv_device **list, int i)
{
	const char *name = lib->get_device_name(list[i]);

	return name != NULL ? name : "";
}

void lv_free(struct lv_lib *lib, struct lv_device **list)
{
	lib->free_device_list(list);
}

/* node returns why the device's file does not open; ENOENT if it does. */
static int node(struct lv_device *device)
{
	char path[sizeof device->dev_name + 32];
	int fd;

	snprintf(path, sizeof path, "/dev/infiniband/%.*s", (int)sizeof device->dev_name, device->dev_name);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return errno;
	close(fd);
	return ENOENT;
}

struct lv_context *lv_open(struct lv_lib *lib, struct lv_device **list, int i, int *err)
{
	struct lv_context *context;

	errno = 0;
	context = lib->open_device(list[i]);
	*err = context != NULL ? 0 : errno != 0 ? errno : EIO;
	/* After a refusal, the library tries another name, and reports that it is missing. */
	if (*err == ENOENT && lv_can_query(lib))
		*err = node(list[i]);
	return context;
}

int lv_result(int rc)
{
	if (rc == -1)
		return errno != 0 ? errno : EIO;
	return rc < 0 ? -rc : rc;
}

int lv_close(struct lv_lib *lib, struct lv_context *context)
{
	errno = 0;
	return lv_result(lib->close_device(context));
}

int lv_query_device(struct lv_lib *lib, struct lv_context *context, struct lv_device_attr *attr)
{
	memset(attr, 0, sizeof *attr);
	errno = 0;
	return lv_result(lib->query_device(context, attr));
}

int lv_query_port(struct lv_lib *lib, struct lv_context *context, int port, struct lv_port_attr *attr)
{
	struct lv_extended *ext = NULL;

	memset(attr, 0, sizeof *attr);
	errno = 0;
	if (context->abi_compat == (void *)UINTPTR_MAX)
		ext = (struct lv_extended *)((char *)context - offsetof(struct lv_extended, context));
	/* The library's own function of that name fills only the oldest fields. */
	if (ext != NULL && ext->sz >= sizeof *ext && ext->query_port != NULL)
		return lv_result(ext->query_port(context, (uint8_t)port, attr, sizeof *attr));
	return lv_result(lib->query_port(context, (uint8_t)port, attr));
}

int lv_query_pkey(struct lv_lib *lib, struct lv_context *context, int port, int index, uint16_t *pkey)
{
	errno = 0;
	return lv_result(lib->query_pkey(context, (uint8_t)port, index, pkey));
}

int lv_query_gids(struct lv_lib *lib, struct lv_context *context, struct lv_gid_entry *entries, int max)
{
	ssize_t n;

	if (lib->query_gid_table == NULL)
		return -1;
	n = lib->query_gid_table(context, entries, (size_t)max, 0, sizeof *entries);
	return n < 0 || n > max ? -1 : (int)n;
}

int lv_query_gid(struct lv_lib *lib, struct lv_context *context, int port, int index, union lv_gid *gid)
{
	errno = 0;
	return lv_result(lib->query_gid(context, (uint8_t)port, index, gid));
}
