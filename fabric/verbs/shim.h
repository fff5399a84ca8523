/* The few functions of libibverbs that launch calls, opened at run time. Each
 * of ours that fails returns an errno, 0 is success. */
#ifndef LAUNCH_VERBS_SHIM_H
#define LAUNCH_VERBS_SHIM_H

#include <sys/types.h>

#include "abi.h"

struct lv_lib {
	void *handle;
	struct lv_device **(*get_device_list)(int *count);
	void (*free_device_list)(struct lv_device **list);
	const char *(*get_device_name)(struct lv_device *device);
	struct lv_context *(*open_device)(struct lv_device *device);
	int (*close_device)(struct lv_context *context);

	/* NULL where the library lacks it. */
	int (*query_device)(struct lv_context *context, struct lv_device_attr *attr);
	int (*query_port)(struct lv_context *context, uint8_t port, struct lv_port_attr *attr);
	int (*query_gid)(struct lv_context *context, uint8_t port, int index, union lv_gid *gid);
	int (*query_pkey)(struct lv_context *context, uint8_t port, int index, uint16_t *pkey);
	ssize_t (*query_gid_table)(struct lv_context *context, struct lv_gid_entry *entries, size_t max, uint32_t flags, size_t size);

	struct lv_pd *(*alloc_pd)(struct lv_context *context);
	int (*dealloc_pd)(struct lv_pd *pd);
	struct lv_mr *(*reg_mr)(struct lv_pd *pd, void *addr, size_t length, int access);
	struct lv_mr *(*reg_dmabuf_mr)(struct lv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access); /* since rdma-core 34 */
	int (*dereg_mr)(struct lv_mr *mr);
	struct lv_cq *(*create_cq)(struct lv_context *context, int cqe, void *cq_context, struct lv_channel *channel, int vector);
	int (*destroy_cq)(struct lv_cq *cq);
	struct lv_qp *(*create_qp)(struct lv_pd *pd, struct lv_qp_init_attr *attr);
	int (*modify_qp)(struct lv_qp *qp, struct lv_qp_attr *attr, int mask);
	int (*destroy_qp)(struct lv_qp *qp);
};

/* lv_result is what a function of the library has returned, as an errno: most
 * return one, some have -1 and set errno, a few the negative one. */
int lv_result(int rc);

/* lv_load opens the library. It returns NULL, or what dlopen or dlvsym said;
 * *missing is 1 when the library itself was not found. */
const char *lv_load(struct lv_lib *lib, int *missing);

/* lv_list returns the devices and their number, or NULL and *err. */
struct lv_device **lv_list(struct lv_lib *lib, int *count, int *err);
const char *lv_name(struct lv_lib *lib, struct lv_device **list, int i);
void lv_free(struct lv_lib *lib, struct lv_device **list);

/* lv_open opens device i; NULL and *err. */
struct lv_context *lv_open(struct lv_lib *lib, struct lv_device **list, int i, int *err);
int lv_close(struct lv_lib *lib, struct lv_context *context);

/* lv_can_query and lv_can_talk tell whether the library has the functions that
 * the next ones, and a session, call. */
int lv_can_query(struct lv_lib *lib);
int lv_can_talk(struct lv_lib *lib);
int lv_query_device(struct lv_lib *lib, struct lv_context *context, struct lv_device_attr *attr);
int lv_query_port(struct lv_lib *lib, struct lv_context *context, int port, struct lv_port_attr *attr);
int lv_query_pkey(struct lv_lib *lib, struct lv_context *context, int port, int index, uint16_t *pkey);

/* lv_query_gids fills entries with those of all ports that are set and returns
 * their number; -1 where this library or kernel has no such question. */
int lv_query_gids(struct lv_lib *lib, struct lv_context *context, struct lv_gid_entry *entries, int max);
int lv_query_gid(struct lv_lib *lib, struct lv_context *context, int port, int index, union lv_gid *gid);

#endif
