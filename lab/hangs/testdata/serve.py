"""A server: silent accepts and never answers, drips sends a byte four times a second, store is a store of torch
that has a node and a rank of another job."""

import os
import socket
import sys
import threading
import time


def ready():
    open(os.environ["READY"], "w").close()


def listen(port):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("0.0.0.0", port))
    s.listen(64)
    ready()
    return s


def drip(c):
    try:
        while True:
            c.sendall(b"x")
            time.sleep(0.25)
    except OSError:
        pass


def main():
    how, port = sys.argv[1], int(sys.argv[2])
    if how == "silent":
        held = listen(port)
        conns = []
        while True:
            conns.append(held.accept())
    if how == "deaf":  # nothing accepts
        held = listen(port)
        time.sleep(3600)
    if how == "drips":
        held = listen(port)
        while True:
            threading.Thread(target=drip, args=(held.accept()[0],), daemon=True).start()
    if how == "store":
        import datetime

        import torch.distributed as dist

        s = dist.TCPStore("0.0.0.0", port, None, True, datetime.timedelta(seconds=9), wait_for_workers=False)
        s.set("none/torchelastic/role_info/0", '{"role": "default", "rank": 0, "local_world_size": 8}')
        s.set("default_pg/0//cuda//0/0", "x" * 128)
        ready()
        time.sleep(3600)


main()
