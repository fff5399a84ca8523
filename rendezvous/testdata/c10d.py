"""The start of N nodes by torch's c10d rendezvous, for the comparison in
docs/benchmarks.md: N forked processes, one TCPStore, every node within 100 ms.
Prints the seconds from the first start to the last node's world."""

import os
import random
import socket
import sys
import time
from datetime import timedelta

import torch.distributed as dist
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import DynamicRendezvousHandler, RendezvousTimeout


def node(n, port, limit):
    time.sleep(random.uniform(0, 0.1))
    store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=limit))
    handler = DynamicRendezvousHandler.from_backend(
        "bench", store, C10dRendezvousBackend(store, "bench"), n, n,
        local_addr="127.0.0.1", timeout=RendezvousTimeout(join=timedelta(seconds=limit)))
    handler.next_rendezvous()


def main():
    n, limit = int(sys.argv[1]), int(sys.argv[2])
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    gate, go = os.pipe()
    done, ready = os.pipe()
    for _ in range(n):
        if os.fork() == 0:
            try:
                os.close(go)
                os.read(gate, 1)  # until the gate is closed
                node(n, port, limit)
                os.write(ready, b"y")
            except BaseException:
                os.write(ready, b"n")
            os.read(gate, 1)
            time.sleep(60)  # the last ones still read what the first ones wrote
            os._exit(0)
    store = dist.TCPStore("127.0.0.1", port, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=limit))
    began = time.monotonic()
    os.close(gate)
    os.close(go)
    os.close(ready)
    came = b""
    while len(came) < n:
        b = os.read(done, n)
        if not b:
            break
        came += b
        if b"n" in came:
            break
    print("%.3f" % (time.monotonic() - began) if came.count(b"y") == n else "none", flush=True)
    os.killpg(0, 9)


os.setsid()
main()
