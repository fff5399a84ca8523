//go:build linux && cgo && !noverbs

#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "session.h"

/* The timers of a connection. An unacknowledged packet is sent again after 4.096 us *
 * 2^14 = 67 ms, by the standard up to four times as long. The eighth time is the last:
 * after 0.5 to 2.1 s. */
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

int lv_memory_make(struct lv_session *s, size_t stride)
{
	void *at;

	s->stride = stride;
	s->length = stride * (size_t)(1 + s->qps);
	at = mmap(NULL, s->length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return failed();
	s->memory = at;
	s->at = (uint64_t)(uintptr_t)at;
	return 0;
}

enum { ACCESS = LV_ACCESS_LOCAL_WRITE | LV_ACCESS_REMOTE_WRITE };

int lv_memory_share(struct lv_session *s)
{
	errno = 0;
	s->mr = s->lib->reg_mr(s->pd, (void *)(uintptr_t)s->at, s->length, ACCESS);
	return s->mr != NULL ? 0 : failed();
}

int lv_dmabuf_share(struct lv_session *s, int fd)
{
	errno = 0;
	/* The peer uses the same addresses as this process. */
	s->mr = s->lib->reg_dmabuf_mr(s->pd, 0, s->length, s->at, fd, ACCESS);
	return s->mr != NULL ? 0 : failed();
}

int lv_cq_make(struct lv_session *s)
{
	errno = 0;
	s->cq = s->lib->create_cq(s->context, s->qps * (s->depth + 1), NULL, NULL, 0);
	return s->cq != NULL ? 0 : failed();
}

/* Adds one QP to s->qps. */
int lv_qp_make(struct lv_session *s)
{
	struct lv_qp_init_attr attr;
	int i;

	for (i = 0; i < s->qps && s->qp[i] != NULL; i++)
		;
	if (i == s->qps)
		return EINVAL;
	/* Not every device accepts inline data, and the processor would have to read it. */
	for (s->inline_max = s->gpu == NULL ? LV_INLINE : 0;; s->inline_max = 0) {
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
	if (way->global) {
		attr.ah.is_global = 1;
		attr.ah.dgid = way->gid;
		attr.ah.sgid_index = (uint8_t)way->gid_index;
		attr.ah.hop_limit = HOPS;
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
	attr.rnr_retry = RETRIES - 1; /* 7 would be forever */
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
	lv_gpu_close(s);
	if (s->pd != NULL)
		s->lib->dealloc_pd(s->pd);
	if (s->context != NULL)
		s->lib->close_device(s->context);
	free(s);
}

uint64_t lv_receive(struct lv_session *s, int qp)
{
	return s->at + (uint64_t)s->stride * (uint64_t)(1 + qp);
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

/* make and differ handle the next piece of the pattern. Its length is a multiple of
 * words, except for the last piece. */
static void make(uint8_t *at, size_t length, uint64_t *x)
{
	uint64_t word;
	size_t i;

	for (i = 0; i + sizeof word <= length; i += sizeof word) {
		word = next(x);
		memcpy(at + i, &word, sizeof word);
	}
	if (i == length)
		return;
	word = next(x);
	memcpy(at + i, &word, length - i);
}

static int64_t differ(const uint8_t *at, size_t length, uint64_t *x)
{
	uint64_t word = 0;
	size_t i, j;

	for (i = 0; i < length; i += sizeof word) {
		size_t n = length - i < sizeof word ? length - i : sizeof word;

		word = next(x);
		if (memcmp(at + i, &word, n) == 0)
			continue;
		for (j = 0; at[i + j] == ((uint8_t *)&word)[j]; j++)
			;
		return (int64_t)(i + j);
	}
	return -1;
}

static size_t piece(size_t left)
{
	return left < LV_GPU_PIECE ? left : LV_GPU_PIECE;
}

int lv_fill(struct lv_session *s, size_t length, uint64_t seed)
{
	uint64_t x = seed | 1;
	size_t i, n;
	int error = 0;

	if (s->gpu == NULL) {
		make(s->memory, length, &x);
		return 0;
	}
	for (i = 0; i < length && error == 0; i += n) {
		n = piece(length - i);
		make(s->gpu->piece, n, &x);
		error = lv_gpu_write(s, s->at + i, s->gpu->piece, n);
	}
	return error != 0 ? error : lv_gpu_settle(s);
}

int lv_clear(struct lv_session *s, int qp, size_t length)
{
	size_t i, n, behind = s->stride * (size_t)(1 + qp);
	int error = 0;

	if (s->gpu == NULL) {
		memset(s->memory + behind, 0, length);
		return 0;
	}
	memset(s->gpu->piece, 0, piece(length));
	for (i = 0; i < length && error == 0; i += n) {
		n = piece(length - i);
		error = lv_gpu_write(s, s->at + behind + i, s->gpu->piece, n);
	}
	return error != 0 ? error : lv_gpu_settle(s);
}

int lv_check(struct lv_session *s, int qp, size_t length, uint64_t seed, int64_t *differs)
{
	uint64_t x = seed | 1;
	size_t i, n, behind = s->stride * (size_t)(1 + qp);
	int error;

	*differs = -1;
	if (s->gpu == NULL) {
		*differs = differ(s->memory + behind, length, &x);
		return 0;
	}
	error = lv_gpu_settle(s);
	for (i = 0; i < length && error == 0 && *differs < 0; i += n) {
		n = piece(length - i);
		error = lv_gpu_read(s, s->gpu->piece, s->at + behind + i, n);
		if (error == 0 && (*differs = differ(s->gpu->piece, n, &x)) >= 0)
			*differs += (int64_t)i;
	}
	return error;
}
