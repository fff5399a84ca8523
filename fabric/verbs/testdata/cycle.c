/* So many times all that a test makes of a device, for valgrind and the address
 * sanitizer: cycle N DEVICE GID [GPU]. It is built by a test with the files beside
 * abi.h; the library is fake.c, or a real one. With the PCI address of a GPU every
 * second time is with memory of that, by cuda.c. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../session.h"

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "%s failed\n", #what); return 1; } } while (0)

enum { SIZE = 5000, STRIDE = 8192, PORT = 1, MTU = 3, GIDS = 256, PINGS = 300 };

static int memory(struct lv_session *s, const char *gpu)
{
	int missing, fd;

	if (gpu == NULL) {
		CHECK(lv_memory_make(s, STRIDE) == 0 && lv_memory_share(s) == 0);
		return 0;
	}
	CHECK(lv_gpu_load(s, &missing) == NULL && lv_gpu_open(s, gpu) == 0 && lv_gpu_alloc(s, STRIDE) == 0);
	CHECK(lv_gpu_export(s, &fd) == 0 && fd >= 0 && lv_dmabuf_share(s, fd) == 0 && close(fd) == 0);
	return 0;
}

/* one uses a device; last is 0 where every step is to succeed, else how far it
 * gets before it is given up. */
static int one(int last, const char *name, int gid, const char *gpu)
{
	struct lv_lib *lib = calloc(1, sizeof *lib);
	struct lv_session *s = calloc(1, sizeof *s);
	struct lv_device **list;
	struct lv_port_attr port;
	struct lv_device_attr device;
	struct lv_gid_entry gids[GIDS];
	struct lv_way way;
	struct lv_end end;
	uint64_t trips[PINGS];
	int64_t differs;
	int missing, count, err, i;

	CHECK(lv_load(lib, &missing) == NULL);
	list = lv_list(lib, &count, &err);
	for (i = 0; i < count && strcmp(lv_name(lib, list, i), name) != 0; i++)
		;
	CHECK(list != NULL && i < count);
	s->lib = lib;
	s->qps = 1;
	s->depth = 16;
	s->context = lv_open(lib, list, i, &err);
	CHECK(s->context != NULL);
	lv_free(lib, list);
	CHECK(lv_can_talk(lib) && lv_query_port(lib, s->context, PORT, &port) == 0 && lv_query_device(lib, s->context, &device) == 0);
	count = lv_query_gids(lib, s->context, gids, GIDS);
	for (i = 0; i < count && (int)gids[i].index != gid; i++)
		;
	CHECK(i < count);
	if (last == 1)
		goto out;
	CHECK(lv_pd_make(s) == 0);
	if (last == 2)
		goto out;
	if (memory(s, gpu) != 0)
		return 1;
	if (last == 3)
		goto out;
	CHECK(lv_cq_make(s) == 0);
	if (last == 4)
		goto out;
	CHECK(lv_qp_make(s) == 0 && lv_qp_init(s, 0, PORT, 0) == 0);
	memset(&way, 0, sizeof way);
	way.port = PORT;
	way.mtu = MTU;
	way.qpn = s->qp[0]->qp_num;
	way.global = 1;
	way.gid_index = gid;
	way.gid = gids[i].gid;
	CHECK(lv_qp_meet(s, 0, &way) == 0 && lv_qp_start(s, 0, 0) == 0);
	s->peer_addr = lv_receive(s, 0);
	s->peer_rkey = s->mr->rkey;
	CHECK(lv_clear(s, 0, SIZE) == 0 && lv_check(s, 0, SIZE, 77, &differs) == 0 && differs == 0 && lv_fill(s, SIZE, 77) == 0);
	end = lv_stream(s, 0, 1, SIZE, 40, 0, 1000000000);
	CHECK(end.how == LV_DONE && end.messages == 40 && lv_check(s, 0, SIZE, 77, &differs) == 0 && differs == -1);
	CHECK(lv_clear(s, 0, SIZE) == 0);
	end = lv_send_self(s, 0, SIZE, 1000000000);
	CHECK(end.how == LV_DONE && lv_check(s, 0, SIZE, 77, &differs) == 0 && differs == -1);
	if (gpu == NULL) { /* a ping-pong looks at the memory itself */
		CHECK(lv_clear(s, 0, SIZE) == 0);
		end = lv_pingpong(s, 0, 1, 9, PINGS, 0, trips, 1000000000);
		CHECK(end.how == LV_DONE && end.messages == PINGS);
	}
out:
	lv_end_session(s);
	free(lib);
	return 0;
}

/* left tells how much of the GPU was not given back. */
static long left(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	long (*ask)(void);

	*(void **)&ask = lib != NULL ? dlsym(lib, "fake_left") : NULL;
	return ask != NULL ? ask() : 0;
}

int main(int argc, char **argv)
{
	int i, n;

	if (argc < 4)
		return 2;
	n = atoi(argv[1]);
	for (i = 0; i < n; i++)
		if (one(i % 5, argv[2], atoi(argv[3]), argc > 4 && i % 2 ? argv[4] : NULL))
			return 1;
	if (argc > 4)
		CHECK(left() == 0);
	return 0;
}
