/* The functions of libibverbs that launch calls, opened at run time. Functions here
 * return an errno; 0 is success. */
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

	/* NULL if the library lacks it. */
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

/* lv_result converts a result of the library to an errno: most functions return one,
 * some return -1 and set errno, a few return a negative errno. */
int lv_result(int rc);

/* lv_load opens the library. It returns NULL, or the error of dlopen or dlvsym;
 * *missing is 1 if the library itself was not found. */
const char *lv_load(struct lv_lib *lib, int *missing);

/* lv_list returns the devices and their number, or NULL and *err. */
struct lv_device **lv_list(struct lv_lib *lib, int *count, int *err);
const char *lv_name(struct lv_lib *lib, struct lv_device **list, int i);
void lv_free(struct lv_lib *lib, struct lv_device **list);

/* lv_open opens device i; NULL and *err. */
struct lv_context *lv_open(struct lv_lib *lib, struct lv_device **list, int i, int *err);
int lv_close(struct lv_lib *lib, struct lv_context *context);

/* lv_can_query and lv_can_talk report whether the library has the functions for
 * queries, and for a session. */
int lv_can_query(struct lv_lib *lib);
int lv_can_talk(struct lv_lib *lib);
int lv_query_device(struct lv_lib *lib, struct lv_context *context, struct lv_device_attr *attr);
int lv_query_port(struct lv_lib *lib, struct lv_context *context, int port, struct lv_port_attr *attr);
int lv_query_pkey(struct lv_lib *lib, struct lv_context *context, int port, int index, uint16_t *pkey);

/* lv_query_gids fills entries with the set entries of all ports and returns their
 * number; -1 if the library or the kernel lacks the query. */
int lv_query_gids(struct lv_lib *lib, struct lv_context *context, struct lv_gid_entry *entries, int max);
int lv_query_gid(struct lv_lib *lib, struct lv_context *context, int port, int index, union lv_gid *gid);

#endif
