/* The resources of one test, and the loops that have to be fast. */
#ifndef LAUNCH_VERBS_SESSION_H
#define LAUNCH_VERBS_SESSION_H

#include "gpu.h"
#include "shim.h"

enum {
	LV_QPS = 33,    /* one for probes, and 32 for the load */
	LV_BATCH = 16,  /* messages that one call posts, with one completion */
	LV_INLINE = 220 /* bytes of inline data, if the device supports it */
};

struct lv_session {
	struct lv_lib *lib;
	struct lv_context *context;
	struct lv_pd *pd;
	struct lv_mr *mr;
	struct lv_cq *cq;
	struct lv_qp *qp[LV_QPS];
	int qps;
	int depth;
	uint32_t inline_max;
	uint64_t at; /* send: stride bytes; then stride bytes to receive for each QP */
	uint8_t *memory; /* the same for this process; NULL: a GPU's */
	struct lv_gpu *gpu; /* NULL: memory of the host */
	size_t length;
	size_t stride;
	uint64_t peer_addr; /* memory that the peer's first QP receives into */
	uint32_t peer_rkey;
	int stop; /* not 0: end soon; set by another thread */
};

/* lv_way is the address of the peer's QP. */
struct lv_way {
	int port;
	int mtu; /* as in lv_port_attr */
	int global; /* by GID; else only by LID */
	int gid_index;
	union lv_gid gid;
	uint16_t lid;
	uint32_t qpn;
	uint32_t psn;
};

/* The end of a loop. */
enum { LV_DONE, LV_STOPPED, LV_STALLED, LV_POST, LV_POLL, LV_FAILED, LV_DIFFERS };

struct lv_end {
	int how;
	int err;         /* LV_POST: an errno */
	int status;      /* LV_FAILED: of the work completion */
	uint32_t vendor; /* LV_FAILED: the device's own code */
	int qp;
	uint64_t messages; /* number that has arrived */
	uint64_t ns;       /* from the first request to the last completion */
};

/* Each returns an errno. lv_memory_make or lv_gpu_alloc allocates memory.
 * lv_memory_share lets the device use it, and so does lv_dmabuf_share with a DMA-BUF,
 * which may be closed afterwards. */
int lv_pd_make(struct lv_session *s);
int lv_memory_make(struct lv_session *s, size_t stride);
int lv_memory_share(struct lv_session *s);
int lv_dmabuf_share(struct lv_session *s, int fd);
int lv_cq_make(struct lv_session *s);
int lv_qp_make(struct lv_session *s);
int lv_qp_init(struct lv_session *s, int qp, int port, int pkey_index);
int lv_qp_meet(struct lv_session *s, int qp, const struct lv_way *way);
int lv_qp_start(struct lv_session *s, int qp, uint32_t psn);

/* lv_end_session releases everything that was made, and frees s. */
void lv_end_session(struct lv_session *s);

/* lv_stream writes messages of size bytes on the QPs from first on: count messages in
 * all or, if that is 0, for span nanoseconds. */
struct lv_end lv_stream(struct lv_session *s, int first, int qps, size_t size, uint64_t count, uint64_t span, uint64_t stall);

/* lv_pingpong writes back and forth. The side that goes first puts the nanoseconds of
 * each round trip into trips. A span that is not 0 ends it earlier; both sides see
 * that in the message. */
struct lv_end lv_pingpong(struct lv_session *s, int qp, int first, size_t size, uint64_t count, uint64_t span, uint64_t *trips, uint64_t stall);

/* lv_send_self sends size bytes from a QP that is connected to itself. */
struct lv_end lv_send_self(struct lv_session *s, int qp, size_t size, uint64_t stall);

/* Each of these returns a CUresult, 0 for memory of the host. lv_fill writes the
 * pattern of a seed into the memory to send, and lv_clear zeros into the memory of a
 * QP to receive. lv_check sets *differs to the first byte that differs from the
 * pattern, or -1. */
int lv_fill(struct lv_session *s, size_t length, uint64_t seed);
int lv_clear(struct lv_session *s, int qp, size_t length);
int lv_check(struct lv_session *s, int qp, size_t length, uint64_t seed, int64_t *differs);

/* lv_receive returns the address at which a QP receives. */
uint64_t lv_receive(struct lv_session *s, int qp);
void lv_stop(struct lv_session *s);

/* lv_memlock returns the limit of locked memory; all bits set: unlimited. */
uint64_t lv_memlock(void);

#endif
