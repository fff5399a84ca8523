"""A job that uses the network as torch with gloo does, in a twentieth of the time.

Rank 0 serves MASTER_PORT. Each rank publishes an address there, takes those of the others, and
connects to them. Then the ranks add up numbers: first a long message, then short ones. A rank that
loses another one ends with 1. Without torchrun, bytes of a program that is no part of the job end
it with 3.
"""

import argparse
import json
import os
import socket
import struct
import sys
import threading
import time

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--pause", type=float, default=0.05, help="seconds of each step")
parser.add_argument("--wait", type=float, default=0, help="seconds before the first connection")
parser.add_argument("--by", default="name", help="name: publish the address of the own name, as gloo does; "
                    "route: that of the connection to rank 0")
parser.add_argument("--out", help="a file for the result")
args = parser.parse_args()
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
master = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])


def say(text):
    os.write(1, f"rank {rank} {text}\n".encode())


def stranger(data):
    if "TORCHELASTIC_RUN_ID" in os.environ:  # torch's store answers all that ask
        raise ConnectionError("not of this job")
    say(f"stranger {data[:40]!r}")
    os._exit(3)


def take(c, n):
    """Returns n bytes of a connection."""
    data = bytearray()
    while len(data) < n:
        more = c.recv(min(n - len(data), 1 << 16))
        if not more:
            raise ConnectionError("connection closed by peer")
        data += more
    return bytes(data)


def send(c, value):
    text = json.dumps(value).encode()
    c.sendall(b"mesh" + struct.pack(">I", len(text)) + text)


def receive(c):
    head = take(c, 8)
    if head[:4] != b"mesh":
        stranger(head)
    return json.loads(take(c, struct.unpack(">I", head[4:])[0]))


def serve(listener):
    """Collects the address of each rank, then gives all of them to each."""
    known, waiting, lock = {}, [], threading.Lock()

    def client(c):
        try:
            r, addr = receive(c)
        except OSError:
            return  # a probe of the port
        with lock:
            if r in known:
                say(f"rank {r} twice")
                os._exit(1)
            known[r] = addr
            waiting.append(c)
            if len(known) == world:
                for w in waiting:
                    send(w, known)

    while True:
        c, _ = listener.accept()
        threading.Thread(target=client, args=(c,), daemon=True).start()


def store():
    """Returns a connection to rank 0's store, which may start later."""
    while True:
        try:
            return socket.create_connection(master)
        except OSError as e:
            print(e, file=sys.stderr, flush=True)
            time.sleep(0.5)


def interface(name):
    """Returns the IPv4 address of an interface."""
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            got = fcntl.ioctl(s.fileno(), 0x8915, struct.pack("256s", name[:15].encode()))
        except OSError:
            sys.exit(f"unable to find address for: {name}")
    return socket.inet_ntoa(got[20:24])


def listen(connection):
    """Returns a listener at the address that the others will use."""
    name = os.environ.get("GLOO_SOCKET_IFNAME")
    candidates = ["127.0.0.1"]
    if name:
        candidates = [interface(name)]
    elif args.by == "route":
        candidates = [connection.getsockname()[0]]
    else:
        try:
            found = socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET, socket.SOCK_STREAM)
            candidates = [f[4][0] for f in found] + candidates
        except OSError:
            pass
    for addr in candidates:
        s = socket.socket()
        try:
            s.bind((addr, 0))
        except OSError:
            continue
        s.listen(64)
        return s
    sys.exit(f"cannot listen at {candidates}")


def connect(listener, known):
    """Returns a connection to each other rank."""
    peers = {}
    for r in range(rank):
        c = socket.create_connection(tuple(known[str(r)]))
        send(c, rank)
        peers[r] = c
    while len(peers) < world - 1:
        c, _ = listener.accept()
        try:
            peers[receive(c)] = c
        except OSError:
            pass  # a probe of the port
    return peers


def reduce(peers, numbers):
    """Adds up a vector over all ranks."""
    data = struct.pack(">d", rank + 1) * numbers
    head = b"mesh" + struct.pack(">I", len(data))
    failed = []

    def give(c):
        try:
            c.sendall(head + data)
        except OSError as e:
            failed.append(e)

    threads = [threading.Thread(target=give, args=(c,), daemon=True) for c in peers.values()]
    for t in threads:
        t.start()
    total = rank + 1
    for r, c in peers.items():
        got = take(c, 8)
        if got != head:
            sys.exit(f"rank {r} is in another step: {got!r}")
        total += struct.unpack(">d", take(c, len(data))[-8:])[0]
    for t in threads:
        t.join()
    if failed:
        raise failed[0]
    assert total == world * (world + 1) / 2, total


def main():
    say("up")
    if rank == 0:
        server = socket.create_server(("", master[1]))
        threading.Thread(target=serve, args=(server,), daemon=True).start()
    time.sleep(args.wait)
    connection = store()
    listener = listen(connection)
    send(connection, [rank, listener.getsockname()])
    peers = connect(listener, receive(connection))
    for c in peers.values():
        c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    reduce(peers, 1 << 15)
    say("met")
    for step in range(args.steps):
        time.sleep(args.pause)
        reduce(peers, 1 << 9)
        say(f"step {step}")
    say("done")


main()
