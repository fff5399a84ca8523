/* 1,000 times all that a test makes of a device, for valgrind and the address
 * sanitizer: built by a test with the files beside abi.h, and with fake.c as the
 * library. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../session.h"

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "%s failed\n", #what); return 1; } } while (0)

enum { SIZE = 5000, STRIDE = 8192, PORT = 1, MTU = 3 };

/* one uses a device; last is 0 where every step is to succeed, else how far it
 * gets before it is given up. */
static int one(int last)
{
	struct lv_lib *lib = calloc(1, sizeof *lib);
	struct lv_session *s = calloc(1, sizeof *s);
	struct lv_device **list;
	struct lv_port_attr port;
	struct lv_device_attr device;
	struct lv_gid_entry gids[8];
	struct lv_way way;
	struct lv_end end;
	uint64_t trips[300];
	int missing, count, err, pinned;

	CHECK(lv_load(lib, &missing) == NULL);
	list = lv_list(lib, &count, &err);
	CHECK(list != NULL && count == 1);
	s->lib = lib;
	s->qps = 1;
	s->depth = 16;
	s->context = lv_open(lib, list, 0, &err);
	CHECK(s->context != NULL && strcmp(lv_name(lib, list, 0), "fake0") == 0);
	lv_free(lib, list);
	CHECK(lv_can_talk(lib) && lv_query_port(lib, s->context, PORT, &port) == 0 && lv_query_device(lib, s->context, &device) == 0);
	CHECK(lv_query_gids(lib, s->context, gids, 8) == 2);
	if (last == 1)
		goto out;
	CHECK(lv_pd_make(s) == 0);
	if (last == 2)
		goto out;
	CHECK(lv_memory_make(s, STRIDE, &pinned) == 0);
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
	CHECK(lv_qp_meet(s, 0, &way) == 0 && lv_qp_start(s, 0, 0) == 0);
	s->peer_addr = (uint64_t)(uintptr_t)lv_receive(s, 0);
	s->peer_rkey = s->mr->rkey;
	lv_fill(s->memory, SIZE, 77);
	end = lv_stream(s, 0, 1, SIZE, 40, 0, 1000000000);
	CHECK(end.how == LV_DONE && end.messages == 40 && lv_check(lv_receive(s, 0), SIZE, 77) == -1);
	memset(lv_receive(s, 0), 0, SIZE);
	CHECK(lv_check(lv_receive(s, 0), SIZE, 77) == 0);
	end = lv_send_self(s, 0, SIZE, 1000000000);
	CHECK(end.how == LV_DONE && lv_check(lv_receive(s, 0), SIZE, 77) == -1);
	memset(lv_receive(s, 0), 0, SIZE);
	end = lv_pingpong(s, 0, 1, 9, 300, 0, trips, 1000000000);
	CHECK(end.how == LV_DONE && end.messages == 300);
out:
	lv_end_session(s);
	free(lib);
	return 0;
}

int main(int argc, char **argv)
{
	int i, n = argc > 1 ? atoi(argv[1]) : 1000;

	for (i = 0; i < n; i++)
		if (one(i % 5))
			return 1;
	return 0;
}
