//go:build linux && cgo && !noverbs

#include <string.h>
#include <time.h>

#include "session.h"

/* After how many rounds a waiting loop checks other things: completions and, much less
 * often since it may be a system call, the clock. It is a fraction of a millisecond. */
enum { LOOK = 1 << 9, LOOK_CLOCK = 1 << 14 };

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int stopped(struct lv_session *s)
{
	return __atomic_load_n(&s->stop, __ATOMIC_RELAXED);
}

/* over reports whether to give up, and records why. */
static int over(struct lv_session *s, uint64_t moved, uint64_t stall, struct lv_end *end)
{
	if (stopped(s))
		end->how = LV_STOPPED;
	else if (now() - moved > stall)
		end->how = LV_STALLED;
	return end->how != LV_DONE;
}

/* reap polls for completions of count QPs from first on; *n is their number. It drops
 * completions of other QPs, which have failed before. Not 0: one has failed, or
 * polling has. */
static int reap(struct lv_session *s, int first, int qps, struct lv_wc *wc, int max, int *n, struct lv_end *end)
{
	int i, came = s->cq->context->poll_cq(s->cq, max, wc);

	*n = 0;
	if (came < 0 || came > max) {
		end->how = LV_POLL;
		return 1;
	}
	for (i = 0; i < came; i++) {
		uint64_t qp = wc[i].wr_id >> 32;

		if (qp < (uint64_t)first || qp >= (uint64_t)(first + qps))
			continue;
		if (wc[i].status != 0) {
			end->how = LV_FAILED;
			end->status = wc[i].status;
			end->vendor = wc[i].vendor_err;
			end->qp = (int)qp;
			return 1;
		}
		wc[(*n)++] = wc[i];
	}
	return 0;
}

/* post posts n messages to a QP, of which only the last one reports. Its completion
 * has the QP and n in its number. */
static int post(struct lv_session *s, int qp, int opcode, size_t size, int n, struct lv_end *end)
{
	struct lv_sge sge = {s->at, (uint32_t)size, s->mr->lkey};
	struct lv_send_wr wr[LV_BATCH], *bad = NULL;
	int i;

	memset(wr, 0, (size_t)n * sizeof wr[0]);
	for (i = 0; i < n; i++) {
		wr[i].wr_id = (uint64_t)qp << 32 | (uint64_t)n;
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
		wr[i].sg_list = &sge;
		wr[i].num_sge = 1;
		wr[i].opcode = opcode;
		wr[i].flags = size <= s->inline_max ? LV_SEND_INLINE : 0;
		wr[i].remote_addr = s->peer_addr + (uint64_t)s->stride * (uint64_t)qp;
		wr[i].rkey = s->peer_rkey;
	}
	wr[n - 1].flags |= LV_SEND_SIGNALED;
	end->err = lv_result(s->qp[qp]->context->post_send(s->qp[qp], wr, &bad));
	if (end->err == 0)
		return 0;
	end->how = LV_POST;
	end->qp = qp;
	return 1;
}

struct lv_end lv_stream(struct lv_session *s, int first, int qps, size_t size, uint64_t count, uint64_t span, uint64_t stall)
{
	struct lv_end end;
	struct lv_wc wc[LV_BATCH];
	uint64_t left[LV_QPS], begun, moved;
	int flying[LV_QPS], all = 0, more = 1, fresh = 0, batch, i, n;
	unsigned idle = 0;

	memset(&end, 0, sizeof end);
	/* Long messages one by one: each keeps the wire busy on its own. */
	batch = size > 8192 ? 1 : s->depth / 4;
	batch = batch < 1 ? 1 : batch > LV_BATCH ? LV_BATCH : batch;
	for (i = 0; i < qps; i++) {
		flying[i] = 0;
		left[i] = count == 0 ? UINT64_MAX : count / (uint64_t)qps + ((uint64_t)i < count % (uint64_t)qps);
	}
	begun = moved = now();
	while (more || all > 0) {
		for (i = 0; more && i < qps; i++)
			while (left[i] > 0) {
				n = left[i] < (uint64_t)batch ? (int)left[i] : batch;
				if (flying[i] + n > s->depth)
					break;
				if (post(s, first + i, LV_WR_WRITE, size, n, &end))
					return end;
				left[i] -= count == 0 ? 0 : (uint64_t)n;
				flying[i] += n;
				all += n;
			}
		if (reap(s, first, qps, wc, LV_BATCH, &n, &end))
			return end;
		if (n == 0) {
			if (++idle % LOOK_CLOCK != 0)
				continue;
			if (fresh)
				moved = now();
			else if (over(s, moved, stall, &end))
				return end;
			fresh = 0;
			continue;
		}
		fresh = 1;
		if (count == 0)
			moved = now();
		for (i = 0; i < n; i++) {
			int done = (int)(uint32_t)wc[i].wr_id, qp = (int)(wc[i].wr_id >> 32) - first;

			if (done < 1 || done > flying[qp])
				continue; /* none of these */
			flying[qp] -= done;
			all -= done;
			end.messages += (uint64_t)done;
		}
		if (stopped(s)) {
			end.how = LV_STOPPED;
			return end;
		}
		more = 0;
		for (i = 0; i < qps; i++)
			more = more || left[i] > 0;
		more = more && (count > 0 || moved - begun < span);
	}
	end.ns = (count == 0 ? moved : now()) - begun;
	return end;
}

/* The last byte of a ping-pong message is its number, 1 to LAST and then 1 again, so
 * it always differs from the previous one. The final message has 255. */
enum { LAST = 254, FINAL = 255 };

/* await waits until the last byte of a message has arrived. It also polls for
 * completions: a failed one explains why nothing arrives. */
static int await(struct lv_session *s, int qp, const uint8_t *last, uint8_t number, int *flying, uint64_t stall, struct lv_end *end, uint8_t *got)
{
	struct lv_wc wc[LV_BATCH];
	uint64_t began = 0;
	unsigned spins;
	int i, n;

	for (spins = 1;; spins++) {
		*got = __atomic_load_n(last, __ATOMIC_ACQUIRE);
		if (*got == number || *got == FINAL)
			return 0;
		if (spins % LOOK != 0)
			continue;
		if (reap(s, qp, 1, wc, LV_BATCH, &n, end))
			return 1;
		for (i = 0; i < n; i++)
			*flying -= (int)(uint32_t)wc[i].wr_id;
		if (spins % LOOK_CLOCK != 0)
			continue;
		if (began == 0)
			began = now();
		if (over(s, began, stall, end))
			return 1;
	}
}

/* room waits until one more message can be posted. */
static int room(struct lv_session *s, int qp, int *flying, int limit, uint64_t stall, struct lv_end *end)
{
	struct lv_wc wc[LV_BATCH];
	uint64_t began = 0;
	unsigned spins = 0;
	int i, n;

	while (*flying >= limit) {
		if (reap(s, qp, 1, wc, LV_BATCH, &n, end))
			return 1;
		for (i = 0; i < n; i++)
			*flying -= (int)(uint32_t)wc[i].wr_id;
		if (n > 0)
			continue;
		if (++spins % LOOK_CLOCK != 0)
			continue;
		if (began == 0)
			began = now();
		if (over(s, began, stall, end))
			return 1;
	}
	return 0;
}

struct lv_end lv_pingpong(struct lv_session *s, int qp, int first, size_t size, uint64_t count, uint64_t span, uint64_t *trips, uint64_t stall)
{
	struct lv_end end;
	uint8_t *mine = s->memory + size - 1, *theirs = s->memory + s->stride * (size_t)(1 + qp) + size - 1, number, got = 0;
	uint64_t begun = now(), at = begun, then, i;
	/* Unless a message is inline, its memory may be read until it is acknowledged, so
	 * at most one is in flight. */
	int flying = 0, limit = size <= s->inline_max && s->depth > 1 ? s->depth / 2 : 1;

	memset(&end, 0, sizeof end);
	for (i = 0; i < count && got != FINAL; i++) {
		number = (uint8_t)(i % LAST + 1);
		if (first) {
			if (i + 1 == count || (span > 0 && at - begun > span))
				number = FINAL;
		} else {
			if (await(s, qp, theirs, number, &flying, stall, &end, &got))
				return end;
			number = got;
		}
		*mine = number;
		if (post(s, qp, LV_WR_WRITE, size, 1, &end))
			return end;
		flying++;
		/* While the message travels, not after the answer has arrived. */
		if (room(s, qp, &flying, limit, stall, &end))
			return end;
		if (first) {
			if (await(s, qp, theirs, number, &flying, stall, &end, &got))
				return end;
			then = at;
			at = now();
			trips[i] = at - then;
		}
		end.messages++;
	}
	/* Nothing may be in flight when the memory is used again. */
	if (room(s, qp, &flying, 1, stall, &end))
		return end;
	end.ns = now() - begun;
	return end;
}

struct lv_end lv_send_self(struct lv_session *s, int qp, size_t size, uint64_t stall)
{
	struct lv_end end;
	struct lv_sge sge = {lv_receive(s, qp), (uint32_t)size, s->mr->lkey};
	struct lv_recv_wr wr = {(uint64_t)qp << 32, NULL, &sge, 1}, *bad = NULL;
	struct lv_wc wc[2];
	uint64_t begun = now();
	int n, i, missing = 2;

	memset(&end, 0, sizeof end);
	end.err = lv_result(s->qp[qp]->context->post_recv(s->qp[qp], &wr, &bad));
	if (end.err != 0) {
		end.how = LV_POST;
		return end;
	}
	if (post(s, qp, LV_WR_SEND, size, 1, &end))
		return end;
	while (missing > 0) {
		if (reap(s, qp, 1, wc, 2, &n, &end))
			return end;
		for (i = 0; i < n; i++)
			if (wc[i].opcode & LV_WC_RECV && wc[i].byte_len != size) {
				end.how = LV_DIFFERS;
				return end;
			}
		missing -= n;
		if (n == 0 && over(s, begun, stall, &end))
			return end;
	}
	end.messages = 1;
	end.ns = now() - begun;
	return end;
}
