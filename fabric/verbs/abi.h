/* The structures of libibverbs.so.1 that launch uses. They are declared here, so that
 * a C compiler alone can build this. Layouts and values are those of rdma-core's
 * libibverbs/verbs.h, which are stable as long as the library is called .so.1.
 * testdata/layout.c compares them with that header if it is installed. Values that the
 * kernel shares are in include/uapi/rdma/ib_user_verbs.h. */
#ifndef LAUNCH_VERBS_ABI_H
#define LAUNCH_VERBS_ABI_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* Used only by address. */
struct lv_srq;
struct lv_channel;

struct lv_device {
	void *unused[2];
	int node_type;
	int transport;
	char name[64];
	char dev_name[64]; /* "uverbs0" */
};

union lv_gid {
	uint8_t raw[16];
	uint64_t half[2]; /* for the alignment */
};

struct lv_gid_entry {
	union lv_gid gid;
	uint32_t index;
	uint32_t port;
	uint32_t type; /* 0 InfiniBand, 1 RoCE v1, 2 RoCE v2 */
	uint32_t ifindex;
};

struct lv_device_attr {
	char fw_ver[64];
	uint64_t node_guid; /* big endian, as the next */
	uint64_t sys_image_guid;
	uint64_t max_mr_size;
	uint64_t page_size_cap;
	uint32_t vendor_id;
	uint32_t vendor_part_id;
	uint32_t hw_ver;
	int max_qp;
	int max_qp_wr;
	unsigned int cap_flags;
	int max_sge;
	int max_sge_rd;
	int max_cq;
	int max_cqe;
	int max_mr;
	int max_pd;
	int unused[19]; /* of reads, atomics, multicast and shared queues */
	int max_srq_sge;
	uint16_t max_pkeys;
	uint8_t local_ca_ack_delay;
	uint8_t phys_port_cnt;
};

struct lv_port_attr {
	int state; /* 1 DOWN, 2 INIT, 3 ARMED, 4 ACTIVE */
	int max_mtu; /* 1 is 256, 5 is 4096 */
	int active_mtu;
	int gid_tbl_len;
	uint32_t cap_flags;
	uint32_t max_msg_sz;
	uint32_t bad_pkey_cntr;
	uint32_t qkey_viol_cntr;
	uint16_t pkey_tbl_len;
	uint16_t lid;
	uint16_t sm_lid;
	uint8_t lmc;
	uint8_t max_vl_num;
	uint8_t sm_sl;
	uint8_t subnet_timeout;
	uint8_t init_type_reply;
	uint8_t active_width;
	uint8_t active_speed;
	uint8_t phys_state;
	uint8_t link_layer; /* 1 InfiniBand, 2 Ethernet */
	uint8_t flags;
	uint16_t cap_flags2;
	/* Since rdma-core 57: XDR is bit 8 of the speed, which active_speed lacks. An
	 * older library fills the fields that it knows and clears the rest. */
	uint32_t active_speed_ex;
};

struct lv_wc {
	uint64_t wr_id;
	int status;
	int opcode;
	uint32_t vendor_err;
	uint32_t byte_len;
	uint32_t imm_data;
	uint32_t qp_num;
	uint32_t src_qp;
	unsigned int flags;
	uint16_t pkey_index;
	uint16_t slid;
	uint8_t sl;
	uint8_t dlid_path_bits;
};

struct lv_sge {
	uint64_t addr;
	uint32_t length;
	uint32_t lkey;
};

struct lv_send_wr {
	uint64_t wr_id;
	struct lv_send_wr *next;
	struct lv_sge *sg_list;
	int num_sge;
	int opcode;
	unsigned int flags;
	uint32_t imm_data;
	uint64_t remote_addr; /* of a write; the unions here are larger than that */
	uint32_t rkey;
	uint32_t unused1;
	uint64_t unused2[2];
	uint64_t unused3[7];
};

struct lv_recv_wr {
	uint64_t wr_id;
	struct lv_recv_wr *next;
	struct lv_sge *sg_list;
	int num_sge;
};

struct lv_context;

struct lv_pd {
	struct lv_context *context;
	uint32_t handle;
};

struct lv_mr {
	struct lv_context *context;
	struct lv_pd *pd;
	void *addr;
	size_t length;
	uint32_t handle;
	uint32_t lkey;
	uint32_t rkey;
};

/* The first fields of structures that the library allocates. */
struct lv_cq {
	struct lv_context *context;
};

struct lv_qp {
	struct lv_context *context;
	void *qp_context;
	struct lv_pd *pd;
	struct lv_cq *send_cq;
	struct lv_cq *recv_cq;
	struct lv_srq *srq;
	uint32_t handle;
	uint32_t qp_num;
};

struct lv_qp_cap {
	uint32_t max_send_wr;
	uint32_t max_recv_wr;
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_inline_data;
};

struct lv_qp_init_attr {
	void *qp_context;
	struct lv_cq *send_cq;
	struct lv_cq *recv_cq;
	struct lv_srq *srq;
	struct lv_qp_cap cap;
	int qp_type;
	int sq_sig_all;
};

struct lv_ah_attr {
	union lv_gid dgid;
	uint32_t flow_label;
	uint8_t sgid_index;
	uint8_t hop_limit;
	uint8_t traffic_class;
	uint16_t dlid;
	uint8_t sl;
	uint8_t src_path_bits;
	uint8_t static_rate;
	uint8_t is_global;
	uint8_t port_num;
};

struct lv_qp_attr {
	int qp_state;
	int cur_qp_state;
	int path_mtu;
	int path_mig_state;
	uint32_t qkey;
	uint32_t rq_psn;
	uint32_t sq_psn;
	uint32_t dest_qp_num;
	unsigned int access_flags;
	struct lv_qp_cap cap;
	struct lv_ah_attr ah;
	struct lv_ah_attr alt_ah;
	uint16_t pkey_index;
	uint16_t alt_pkey_index;
	uint8_t en_sqd_async_notify;
	uint8_t sq_draining;
	uint8_t max_rd_atomic;
	uint8_t max_dest_rd_atomic;
	uint8_t min_rnr_timer;
	uint8_t port_num;
	uint8_t timeout;
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint8_t alt_port_num;
	uint8_t alt_timeout;
	uint32_t rate_limit;
};

/* The header's inline functions call these: an open context has its provider's
 * functions. */
struct lv_context {
	struct lv_device *device;
	void *unused1[11];
	int (*poll_cq)(struct lv_cq *cq, int entries, struct lv_wc *wc);
	void *unused2[13];
	int (*post_send)(struct lv_qp *qp, struct lv_send_wr *wr, struct lv_send_wr **bad);
	int (*post_recv)(struct lv_qp *qp, struct lv_recv_wr *wr, struct lv_recv_wr **bad);
	void *unused3[5];
	int cmd_fd;
	int async_fd;
	int num_comp_vectors;
	pthread_mutex_t mutex;
	void *abi_compat; /* all bits set: the context is the end of an lv_extended */
};

/* It grows at its beginning, so sz is its size. */
struct lv_extended {
	int (*query_port)(struct lv_context *context, uint8_t port, struct lv_port_attr *attr, size_t len);
	void *unused[37];
	uint64_t unused2;
	size_t sz;
	struct lv_context context;
};

enum {
	LV_LINK_ETHERNET = 2,
	LV_PORT_ACTIVE = 4,

	LV_QPT_RC = 2,

	LV_QPS_INIT = 1,
	LV_QPS_RTR = 2,
	LV_QPS_RTS = 3,

	LV_QP_STATE = 1 << 0,
	LV_QP_ACCESS_FLAGS = 1 << 3,
	LV_QP_PKEY_INDEX = 1 << 4,
	LV_QP_PORT = 1 << 5,
	LV_QP_AV = 1 << 7,
	LV_QP_PATH_MTU = 1 << 8,
	LV_QP_TIMEOUT = 1 << 9,
	LV_QP_RETRY_CNT = 1 << 10,
	LV_QP_RNR_RETRY = 1 << 11,
	LV_QP_RQ_PSN = 1 << 12,
	LV_QP_MAX_QP_RD_ATOMIC = 1 << 13,
	LV_QP_MIN_RNR_TIMER = 1 << 15,
	LV_QP_SQ_PSN = 1 << 16,
	LV_QP_MAX_DEST_RD_ATOMIC = 1 << 17,
	LV_QP_DEST_QPN = 1 << 20,

	LV_ACCESS_LOCAL_WRITE = 1,
	LV_ACCESS_REMOTE_WRITE = 2,

	LV_WR_WRITE = 0,
	LV_WR_SEND = 2,

	LV_SEND_SIGNALED = 2,
	LV_SEND_INLINE = 8,

	LV_WC_RECV = 1 << 7,
};

#endif
