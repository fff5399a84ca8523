//go:build linux && cgo && !noverbs

#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "session.h"

/* The timers of a connection. A packet that is not acknowledged is sent again
 * after 4.096 us * 2^14 = 67 ms, up to four times as long by the standard, and
 * given up after the eighth time: in 0.5 to 2.1 s. */
enum { TIMEOUT = 14, RETRIES = 7, RNR_TIMER = 12, HOPS = 64 };

static int failed(void)
{
	return errno != 0 ? errno : EIO;
}

int lv_pd_make(struct lv_session *s)
{
	errno = 0;
	s->pd = s->lib->alloc_pd(s->context);
	return s->pd != NULL ? 0 : failed();
}

int lv_memory_make(struct lv_session *s, size_t stride, int *pinned)
{
	void *at;

	*pinned = 0;
	s->stride = stride;
	s->length = stride * (size_t)(1 + s->qps);
	at = mmap(NULL, s->length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return failed();
	s->memory = at;
	*pinned = 1;
	errno = 0;
	s->mr = s->lib->reg_mr(s->pd, s->memory, s->length, LV_ACCESS_LOCAL_WRITE | LV_ACCESS_REMOTE_WRITE);
	return s->mr != NULL ? 0 : failed();
}

int lv_cq_make(struct lv_session *s)
{
	errno = 0;
	s->cq = s->lib->create_cq(s->context, s->qps * (s->depth + 1), NULL, NULL, 0);
	return s->cq != NULL ? 0 : failed();
}

/* One more QP, as s->qps counts. */
int lv_qp_make(struct lv_session *s)
{
	struct lv_qp_init_attr attr;
	int i;

	for (i = 0; i < s->qps && s->qp[i] != NULL; i++)
		;
	if (i == s->qps)
		return EINVAL;
	/* Not every device takes data with the request. */
	for (s->inline_max = LV_INLINE;; s->inline_max = 0) {
		memset(&attr, 0, sizeof attr);
		attr.send_cq = attr.recv_cq = s->cq;
		attr.qp_type = LV_QPT_RC;
		attr.cap.max_send_wr = (uint32_t)s->depth;
		attr.cap.max_recv_wr = 1;
		attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
		attr.cap.max_inline_data = s->inline_max;
		errno = 0;
		s->qp[i] = s->lib->create_qp(s->pd, &attr);
		if (s->qp[i] != NULL)
			return 0;
		if (s->inline_max == 0 || errno == EPERM || errno == EACCES)
			return failed();
	}
}

static int modify(struct lv_session *s, int qp, struct lv_qp_attr *attr, int mask)
{
	errno = 0;
	return lv_result(s->lib->modify_qp(s->qp[qp], attr, mask));
}

int lv_qp_init(struct lv_session *s, int qp, int port, int pkey_index)
{
	struct lv_qp_attr attr;

	memset(&attr, 0, sizeof attr);
	attr.qp_state = LV_QPS_INIT;
	attr.port_num = (uint8_t)port;
	attr.pkey_index = (uint16_t)pkey_index;
	attr.access_flags = LV_ACCESS_LOCAL_WRITE | LV_ACCESS_REMOTE_WRITE;
	return modify(s, qp, &attr, LV_QP_STATE | LV_QP_PORT | LV_QP_PKEY_INDEX | LV_QP_ACCESS_FLAGS);
}

int lv_qp_meet(struct lv_session *s, int qp, const struct lv_way *way)
{
	struct lv_qp_attr attr;

	memset(&attr, 0, sizeof attr);
	attr.qp_state = LV_QPS_RTR;
	attr.path_mtu = way->mtu;
	attr.dest_qp_num = way->qpn;
	attr.rq_psn = way->psn;
	attr.max_dest_rd_atomic = 1;
	attr.min_rnr_timer = RNR_TIMER;
	attr.ah.port_num = (uint8_t)way->port;
	attr.ah.dlid = way->lid;
	attr.ah.sl = way->service_level;
	if (way->global) {
		attr.ah.is_global = 1;
		attr.ah.dgid = way->gid;
		attr.ah.sgid_index = (uint8_t)way->gid_index;
		attr.ah.hop_limit = HOPS;
		attr.ah.traffic_class = way->traffic_class;
	}
	return modify(s, qp, &attr, LV_QP_STATE | LV_QP_AV | LV_QP_PATH_MTU | LV_QP_DEST_QPN | LV_QP_RQ_PSN |
		LV_QP_MAX_DEST_RD_ATOMIC | LV_QP_MIN_RNR_TIMER);
}

int lv_qp_start(struct lv_session *s, int qp, uint32_t psn)
{
	struct lv_qp_attr attr;

	memset(&attr, 0, sizeof attr);
	attr.qp_state = LV_QPS_RTS;
	attr.sq_psn = psn;
	attr.timeout = TIMEOUT;
	attr.retry_cnt = RETRIES;
	attr.rnr_retry = RETRIES - 1; /* 7 would be for ever */
	attr.max_rd_atomic = 1;
	return modify(s, qp, &attr, LV_QP_STATE | LV_QP_SQ_PSN | LV_QP_TIMEOUT | LV_QP_RETRY_CNT | LV_QP_RNR_RETRY |
		LV_QP_MAX_QP_RD_ATOMIC);
}

void lv_end_session(struct lv_session *s)
{
	int i;

	for (i = s->qps - 1; i >= 0; i--)
		if (s->qp[i] != NULL)
			s->lib->destroy_qp(s->qp[i]);
	if (s->cq != NULL)
		s->lib->destroy_cq(s->cq);
	if (s->mr != NULL)
		s->lib->dereg_mr(s->mr);
	if (s->memory != NULL)
		munmap(s->memory, s->length);
	if (s->pd != NULL)
		s->lib->dealloc_pd(s->pd);
	if (s->context != NULL)
		s->lib->close_device(s->context);
	free(s);
}

uint8_t *lv_receive(struct lv_session *s, int qp)
{
	return s->memory + s->stride * (size_t)(1 + qp);
}

void lv_stop(struct lv_session *s)
{
	__atomic_store_n(&s->stop, 1, __ATOMIC_RELAXED);
}

uint64_t lv_memlock(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	return limit.rlim_cur;
}

/* The pattern is a xorshift sequence, eight bytes at a time. */
static uint64_t next(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

void lv_fill(uint8_t *at, size_t length, uint64_t seed)
{
	uint64_t x = seed | 1, word;
	size_t i;

	for (i = 0; i + sizeof word <= length; i += sizeof word) {
		word = next(&x);
		memcpy(at + i, &word, sizeof word);
	}
	word = next(&x);
	memcpy(at + i, &word, length - i);
}

int64_t lv_check(const uint8_t *at, size_t length, uint64_t seed)
{
	uint64_t x = seed | 1, word = 0;
	size_t i, j;

	for (i = 0; i < length; i += sizeof word) {
		size_t n = length - i < sizeof word ? length - i : sizeof word;

		word = next(&x);
		if (memcmp(at + i, &word, n) == 0)
			continue;
		for (j = 0; at[i + j] == ((uint8_t *)&word)[j]; j++)
			;
		return (int64_t)(i + j);
	}
	return -1;
}
