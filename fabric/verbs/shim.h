/* The few functions of libibverbs that launch calls, opened at run time. */
#ifndef LAUNCH_VERBS_SHIM_H
#define LAUNCH_VERBS_SHIM_H

/* The library's structures are only ever handled by address here, so its
 * header is not needed: a machine with nothing but a compiler builds this. */
struct ibv_device;
struct ibv_context;

struct verbs {
	void *handle;
	struct ibv_device **(*get_device_list)(int *count);
	void (*free_device_list)(struct ibv_device **list);
	const char *(*get_device_name)(struct ibv_device *device);
	struct ibv_context *(*open_device)(struct ibv_device *device);
	int (*close_device)(struct ibv_context *context);
};

/* verbs_load opens the library. It returns NULL, or what dlopen or dlvsym
 * said; *missing is 1 when the library itself was not found. */
const char *verbs_load(struct verbs *v, int *missing);

/* verbs_list returns the devices and their number, or NULL and *err. */
struct ibv_device **verbs_list(struct verbs *v, int *count, int *err);
const char *verbs_name(struct verbs *v, struct ibv_device **list, int i);

/* verbs_try opens device i and closes it again: 0, or the errno of the open. */
int verbs_try(struct verbs *v, struct ibv_device **list, int i);
void verbs_free(struct verbs *v, struct ibv_device **list);

#endif
