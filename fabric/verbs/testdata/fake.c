/* A libibverbs whose devices write into the memory of their own process, so that
 * two ends of a test in one process reach each other, and that is as broken as
 * "mode" says. */
#include "mode.h"

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../abi.h"

static int fails(const char *word)
{
	long n = mode(word);

	if (n <= 0)
		return 0;
	errno = (int)n;
	return (int)n;
}

/* The far end of a connection is found by number. */
enum { MOST = 4096 };
struct fake_cq {
	struct lv_cq cq;
	struct lv_wc wc[MOST];
	unsigned head, tail;
};
static struct fake_qp {
	struct lv_qp qp;
	struct fake_cq *at;
	struct lv_recv_wr wr;
	struct lv_sge sge;
	uint32_t peer, state;
	int posted;
} *qps[MOST];
static uint32_t made;
static long messages;

/* Memory is found by its key. */
static struct fake_mr {
	struct lv_mr mr;
	int live, gpu;
	char *at; /* NULL: as the address says */
} mrs[MOST];
static uint32_t keys;

/* peer asks the GPU's side, as a module of the kernel would. */
static void *peer(uint64_t addr, size_t n)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *at = NULL;
	void *(*ask)(uint64_t, size_t);

	if (lib == NULL)
		return NULL;
	*(void **)&ask = dlsym(lib, "fake_peer");
	if (ask != NULL)
		at = ask(addr, n);
	dlclose(lib);
	return at;
}

/* memory is what lies at an address under a key; NULL: that is not allowed. */
static char *memory(uint32_t key, uint64_t addr, size_t n)
{
	struct fake_mr *m = &mrs[key % MOST];
	uint64_t first = (uint64_t)(uintptr_t)m->mr.addr;

	if (!m->live || addr < first || n > m->mr.length || addr - first > m->mr.length - n)
		return NULL;
	if (m->gpu && peer(addr, n) == NULL)
		return NULL;
	return m->at != NULL ? m->at + (addr - first) : (char *)(uintptr_t)addr;
}

struct lv_device **ibv_get_device_list(int *count)
{
	long n = mode("devices") < 0 ? 1 : mode("devices"), i;
	struct lv_device **list;

	if (fails("list"))
		return NULL;
	list = calloc((size_t)n + 1, sizeof *list);
	for (i = 0; i < n; i++) {
		list[i] = calloc(1, sizeof **list);
		snprintf(list[i]->name, sizeof list[i]->name, "fake%ld", i);
		snprintf(list[i]->dev_name, sizeof list[i]->dev_name, "uverbs%ld", 1000 + i);
	}
	*count = mode("claims") < 0 ? (int)n : (int)mode("claims");
	return list;
}

void ibv_free_device_list(struct lv_device **list)
{
	int i;

	for (i = 0; list[i] != NULL; i++)
		free(list[i]);
	free(list);
}

const char *ibv_get_device_name(struct lv_device *device)
{
	return mode("nameless") > 0 ? NULL : device->name;
}

static int query_port(struct lv_context *context, uint8_t port, struct lv_port_attr *attr, size_t len)
{
	static int asked;
	struct lv_port_attr a = {
		.state = mode("state") < 0 ? 4 : (int)mode("state"), .max_mtu = 5, .active_mtu = mode("mtu") < 0 ? 3 : (int)mode("mtu"),
		.gid_tbl_len = 4, .max_msg_sz = 1 << 30, .pkey_tbl_len = mode("pkeys") < 0 ? 2 : (uint16_t)mode("pkeys"), .lid = mode("lid") < 0 ? 7 : (uint16_t)mode("lid"),
		.active_width = 2, .active_speed = 128, .phys_state = 5, .link_layer = mode("link") < 0 ? 2 : (uint8_t)mode("link"),
		.active_speed_ex = mode("speed") < 0 ? 0 : (uint32_t)mode("speed"),
	};

	(void)context;
	if (fails("query-port"))
		return errno;
	if (port != 1)
		return EINVAL;
	asked++;
	if (asked > 1 && fails("later"))
		return errno;
	if (asked > 1 && mode("falls") > 0)
		a.state = 1;
	memcpy(attr, &a, len < sizeof a ? len : sizeof a);
	return 0;
}

int ibv_query_port(struct lv_context *context, uint8_t port, struct lv_port_attr *attr)
{
	return query_port(context, port, attr, offsetof(struct lv_port_attr, flags));
}

int ibv_query_device(struct lv_context *context, struct lv_device_attr *attr)
{
	(void)context;
	if (fails("query-device"))
		return errno;
	memset(attr, 0, sizeof *attr);
	memset(attr->fw_ver, 'f', sizeof attr->fw_ver); /* no end */
	attr->node_guid = 0x0100000000000002;
	attr->max_qp = 100;
	attr->max_qp_wr = MOST;
	attr->max_cqe = MOST;
	attr->max_mr_size = 1 << 30;
	attr->phys_port_cnt = mode("ports") < 0 ? 1 : (uint8_t)mode("ports");
	return 0;
}

int ibv_query_pkey(struct lv_context *context, uint8_t port, int index, uint16_t *pkey)
{
	(void)context;
	(void)port;
	if (fails("pkey"))
		return -1;
	*pkey = index == 0 ? 0xffff : 0;
	return 0;
}

static void set(union lv_gid *gid, int index)
{
	static const uint8_t link_local[16] = {0xfe, 0x80, [15] = 9}, four[16] = {[10] = 0xff, 0xff, 10, 9, 0, 1};

	memcpy(gid->raw, index == 0 ? link_local : four, 16);
}

int ibv_query_gid(struct lv_context *context, uint8_t port, int index, union lv_gid *gid)
{
	(void)context;
	(void)port;
	if (index < 0 || index > 3)
		return -1;
	memset(gid, 0, sizeof *gid);
	if (index < 2 && mode("gidless") < 0)
		set(gid, index);
	return 0;
}

ssize_t _ibv_query_gid_table(struct lv_context *context, struct lv_gid_entry *entries, size_t max, uint32_t flags, size_t size)
{
	int i;

	(void)context;
	(void)flags;
	if (mode("tableless") > 0 || max < 2 || size != sizeof *entries)
		return -EOPNOTSUPP;
	if (mode("gidless") > 0)
		return 0;
	if (mode("many") > 0)
		return mode("many");
	for (i = 0; i < 2; i++) {
		set(&entries[i].gid, i);
		entries[i].index = (uint32_t)i;
		entries[i].port = 1;
		entries[i].type = 2;
		entries[i].ifindex = 3;
	}
	return 2;
}

static void complete(struct fake_cq *cq, uint64_t id, int status, int opcode, uint32_t length)
{
	struct lv_wc *wc = &cq->wc[cq->tail++ % MOST];

	memset(wc, 0, sizeof *wc);
	wc->wr_id = id;
	wc->status = status;
	wc->opcode = opcode;
	wc->byte_len = length;
	wc->vendor_err = status != 0 ? 0x81 : 0;
}

static int poll_cq(struct lv_cq *cq, int max, struct lv_wc *wc)
{
	struct fake_cq *f = (struct fake_cq *)cq;
	int n;

	if (mode("garbage") > 0)
		return (int)mode("garbage");
	if (mode("deaf") > 0)
		return -1;
	for (n = 0; n < max && f->head != f->tail; n++)
		wc[n] = f->wc[f->head++ % MOST];
	return n;
}

/* carry returns the status of the completion. */
static int carry(struct fake_qp *q, struct lv_send_wr *wr)
{
	struct fake_qp *other = q->peer < MOST ? qps[q->peer] : NULL;
	struct lv_sge *sge = wr->sg_list;
	size_t n = sge->length, i;
	/* What goes with the request the processor reads. */
	char *from = wr->flags & LV_SEND_INLINE ? (char *)(uintptr_t)sge->addr : memory(sge->lkey, sge->addr, n), *to;

	if (wr->opcode == LV_WR_SEND) {
		if (other == NULL || !other->posted)
			return 0;
		to = memory(other->sge.lkey, other->sge.addr, n);
	} else
		to = memory(wr->rkey, wr->remote_addr, n);
	if (from == NULL || to == NULL)
		return from == NULL ? 4 : 10;
	if (wr->opcode == LV_WR_SEND) {
		complete(other->at, other->wr.wr_id, 0, LV_WC_RECV, mode("short") > 0 ? (uint32_t)n - 1 : (uint32_t)n);
		other->posted = 0;
	}
	/* Also where two threads look at it: the last byte last, as a device does. */
	for (i = 0; i + 1 < n; i++)
		to[i] = from[i];
	if (mode("corrupt") > 0 && n > 1 && messages > mode("corrupt"))
		to[n / 2] ^= 1;
	__atomic_store_n(&to[n - 1], from[n - 1], __ATOMIC_RELEASE);
	return 0;
}

static int post_send(struct lv_qp *qp, struct lv_send_wr *wr, struct lv_send_wr **bad)
{
	struct fake_qp *q = (struct fake_qp *)qp;
	long from = mode("from") < 0 ? 0 : mode("from"), longest = mode("longest");
	int status;

	for (; wr != NULL; wr = wr->next) {
		*bad = wr;
		if (__atomic_add_fetch(&messages, 1, __ATOMIC_RELAXED) > from) {
			if (mode("post") > 0)
				return (int)mode("post");
			if (mode("silent") > 0)
				continue;
			if (mode("wc") > 0) {
				complete(q->at, wr->wr_id, (int)mode("wc"), 0, 0);
				continue;
			}
		}
		if (longest > 0 && wr->sg_list->length > (uint32_t)longest) {
			complete(q->at, wr->wr_id, 12, 0, 0);
			continue;
		}
		status = carry(q, wr);
		if (status != 0 || wr->flags & LV_SEND_SIGNALED)
			complete(q->at, wr->wr_id, status, wr->opcode, 0);
	}
	return 0;
}

static int post_recv(struct lv_qp *qp, struct lv_recv_wr *wr, struct lv_recv_wr **bad)
{
	struct fake_qp *q = (struct fake_qp *)qp;

	*bad = wr;
	q->wr = *wr;
	q->sge = *wr->sg_list;
	q->posted = 1;
	return 0;
}

struct lv_context *ibv_open_device(struct lv_device *device)
{
	struct lv_extended *e;

	if (mode("hangs") > 0)
		for (;;)
			pause();
	if (mode("crashes") > 0)
		*(volatile int *)8 = 0;
	if (mode("exits") > 0)
		_exit(3);
	if (fails("open"))
		return NULL;
	if (mode("open") == 0) { /* refuses without an errno */
		errno = 0;
		return NULL;
	}
	e = calloc(1, sizeof *e);
	e->sz = mode("old") > 0 ? sizeof *e - 8 : sizeof *e;
	e->query_port = query_port;
	e->context.abi_compat = (void *)UINTPTR_MAX;
	e->context.device = device;
	e->context.poll_cq = poll_cq;
	e->context.post_send = post_send;
	e->context.post_recv = post_recv;
	return &e->context;
}

int ibv_close_device(struct lv_context *context)
{
	free((char *)context - offsetof(struct lv_extended, context));
	return 0;
}

struct lv_pd *ibv_alloc_pd(struct lv_context *context)
{
	struct lv_pd *pd;

	if (fails("pd"))
		return NULL;
	pd = calloc(1, sizeof *pd);
	pd->context = context;
	return pd;
}

int ibv_dealloc_pd(struct lv_pd *pd) { free(pd); return 0; }

static struct lv_mr *registered(struct lv_pd *pd, uint64_t addr, size_t length, char *at, int gpu)
{
	uint32_t key = __atomic_add_fetch(&keys, 1, __ATOMIC_RELAXED) % MOST;
	struct fake_mr *m = &mrs[key];

	m->mr.context = pd->context;
	m->mr.pd = pd;
	m->mr.addr = (void *)(uintptr_t)addr;
	m->mr.length = length;
	m->mr.lkey = m->mr.rkey = key;
	m->at = at;
	m->gpu = gpu;
	m->live = 1;
	return &m->mr;
}

/* As the kernel: what the process cannot read is nobody's, unless a module has
 * it. */
struct lv_mr *ibv_reg_mr(struct lv_pd *pd, void *addr, size_t length, int access)
{
	char byte;
	struct iovec here = {&byte, 1}, there = {addr, 1};

	(void)access;
	if (fails("mr"))
		return NULL;
	if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1)
		return registered(pd, (uint64_t)(uintptr_t)addr, length, NULL, 0);
	if (mode("peermem") > 0)
		return registered(pd, (uint64_t)(uintptr_t)addr, length, peer((uint64_t)(uintptr_t)addr, length), 1);
	errno = EFAULT;
	return NULL;
}

#ifndef OLD
struct lv_mr *ibv_reg_dmabuf_mr(struct lv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	off_t begin = lseek(fd, 0, SEEK_CUR);
	char *at;

	(void)access;
	if (fails("mr-dmabuf"))
		return NULL;
	at = begin < 0 ? MAP_FAILED : mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, begin + (off_t)offset);
	if (at == MAP_FAILED) {
		errno = EBADF;
		return NULL;
	}
	return registered(pd, iova, length, at, 1);
}
#endif

int ibv_dereg_mr(struct lv_mr *mr)
{
	struct fake_mr *m = &mrs[mr->lkey];

	if (m->gpu && m->at != peer((uint64_t)(uintptr_t)mr->addr, mr->length))
		munmap(m->at, mr->length);
	m->live = 0;
	return 0;
}

struct lv_cq *ibv_create_cq(struct lv_context *context, int cqe, void *cq_context, struct lv_channel *channel, int vector)
{
	struct fake_cq *cq;

	(void)cq_context;
	(void)channel;
	(void)vector;
	if (fails("cq") || cqe > MOST)
		return NULL;
	cq = calloc(1, sizeof *cq);
	cq->cq.context = context;
	return &cq->cq;
}

int ibv_destroy_cq(struct lv_cq *cq) { free(cq); return 0; }

struct lv_qp *ibv_create_qp(struct lv_pd *pd, struct lv_qp_init_attr *attr)
{
	struct fake_qp *q;
	uint32_t number = __atomic_add_fetch(&made, 1, __ATOMIC_RELAXED) % MOST;

	if (fails("qp"))
		return NULL;
	if (attr->cap.max_inline_data > 0 && mode("inline") == 0) {
		errno = EINVAL;
		return NULL;
	}
	q = calloc(1, sizeof *q);
	q->qp.context = pd->context;
	q->qp.pd = pd;
	q->qp.qp_num = number;
	q->at = (struct fake_cq *)attr->send_cq;
	qps[number] = q;
	return &q->qp;
}

int ibv_modify_qp(struct lv_qp *qp, struct lv_qp_attr *attr, int mask)
{
	static const char *words[] = {"reset", "init", "rtr", "rts"};
	struct fake_qp *q = (struct fake_qp *)qp;

	if (!(mask & LV_QP_STATE) || attr->qp_state > 3)
		return EINVAL;
	if (fails(words[attr->qp_state]))
		return mode("negative") > 0 ? -1 : errno;
	if (attr->qp_state == LV_QPS_RTR)
		q->peer = attr->dest_qp_num;
	return 0;
}

int ibv_destroy_qp(struct lv_qp *qp)
{
	qps[qp->qp_num] = NULL;
	free(qp);
	return 0;
}
