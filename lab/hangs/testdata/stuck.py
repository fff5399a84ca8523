"""What a rank does that never ends. Each takes a path and a number of elements."""

import asyncio
import ctypes
import fcntl
import mmap
import multiprocessing
import os
import queue
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

LONG = 3600


def sleep(path, numel):
    time.sleep(LONG)


def wait_gate(path, numel):
    """Not stuck: goes on when the test says so."""
    while not os.path.exists(os.path.join(os.environ["GATE"], "go")):
        time.sleep(0.05)


def fail(path, numel):
    raise RuntimeError("the data set has no shard 3")


def fail_caught(path, numel):
    """An exception in the main thread, and another thread that keeps the process."""
    threading.Thread(target=time.sleep, args=(LONG,), name="uploader").start()
    raise RuntimeError("the data set has no shard 3")


def end(path, numel):
    os._exit(0)


def die(path, numel):
    os.kill(os.getpid(), signal.SIGKILL)


def halt(path, numel):
    os.kill(os.getpid(), signal.SIGSTOP)


def lock(path, numel):
    """Two threads that take two locks in different order."""
    a, b = threading.Lock(), threading.Lock()
    both = threading.Barrier(2)

    def other():
        with b:
            both.wait()
            with a:
                pass

    threading.Thread(target=other, name="prefetch", daemon=True).start()
    with a:
        both.wait()
        with b:
            pass


def lock_self(path, numel):
    held = threading.Lock()
    held.acquire()
    held.acquire()


def empty_queue(path, numel):
    queue.Queue().get()


def file_lock(path, numel):
    """Waits for a lock that another process holds."""
    with open(path) as f:
        fcntl.flock(f, fcntl.LOCK_EX)


def child(path, numel):
    subprocess.run(["sleep", str(LONG)])


def killed_reader(path, numel):
    """The process that empties a queue is killed, and the queue is full."""
    context = multiprocessing.get_context("fork")
    q = context.Queue(4)
    context.Process(target=lambda: (q.get(), os.kill(os.getpid(), signal.SIGKILL)), daemon=True).start()
    while True:
        q.put(0)


def killed_holder(path, numel):
    """One of two processes that fill a queue is killed with their lock held."""
    context = multiprocessing.get_context("fork")
    q, held = context.SimpleQueue(), context.Lock()

    def fill(i):
        with held:
            if i == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            q.put(i)

    for i in range(2):
        context.Process(target=fill, args=(i,), daemon=True).start()
        time.sleep(1)
    q.get()


def full_pipe(path, numel):
    """A program that prints more than a pipe takes, and whose output the rank does not read."""
    p = subprocess.Popen([sys.executable, "-c", "print('x' * 200000)"], stdout=subprocess.PIPE)
    p.wait()


def event_loop(path, numel):
    """A task of asyncio has ended with an error that no code waits for."""

    async def produce(q):
        raise KeyError("shard 3")

    async def main():
        q = asyncio.Queue()
        task = asyncio.create_task(produce(q))  # noqa: F841
        await q.get()

    asyncio.run(main())


def service(path, numel):
    """Asks a server that accepts and never answers."""
    host, port = path.split(":")
    with socket.create_connection((host, int(port))) as s:
        s.sendall(b"GET shard 3\n")
        s.recv(1)


def fifo(path, numel):
    os.mkfifo(path)
    open(path).read()


def vfork(path, numel):
    """Starts a child that waits for a writer of a pipe before its exec, for which its parent waits in the kernel."""
    os.mkfifo(path)
    os.posix_spawn("/bin/true", ["true"], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 0, path, os.O_RDONLY, 0)])


def gil(path, numel):
    """Sleeps in C with the interpreter's lock held."""
    ctypes.PyDLL(None).sleep(LONG)


def look_up(path, numel):
    os.stat(path)


def read(path, numel):
    """Opens a file, asks for the file system to stop, and reads from it."""
    with open(path, "rb", buffering=0) as f:
        gate = os.environ["GATE"]
        open(os.path.join(gate, "opened"), "w").close()
        while not os.path.exists(os.path.join(gate, "read")):
            time.sleep(0.05)
        f.read(1 << 16)


def prctl(*args):
    if ctypes.CDLL(None, use_errno=True).prctl(*(ctypes.c_ulong(a) for a in args)):
        raise OSError(ctypes.get_errno(), "prctl")


def private(path, numel):
    """May not be looked into, as a program that has changed its user, or as with yama."""
    prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
    time.sleep(LONG)


def await_stop():
    """Lets the test stop the file system."""
    gate = os.environ["GATE"]
    open(os.path.join(gate, "opened"), "w").close()
    while not os.path.exists(os.path.join(gate, "read")):
        time.sleep(0.05)


def mapped(path, numel):
    """A page fault that the file system does not answer."""
    f = open(path, "rb")
    page = mmap.mmap(f.fileno(), 4096, flags=mmap.MAP_PRIVATE)
    await_stop()
    page[0]


def blind(path, numel):
    """A page of its long environment comes when userfaultfd's user brings it: who reads that waits for ever."""
    with open("/proc/self/stat") as stat:
        begin, end = (int(n) for n in stat.read().split()[49:51])
    at = begin + 4095 & ~4095
    assert begin < at and at + 4096 < end
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.syscall(323, 0)  # userfaultfd, on x86-64
    fcntl.ioctl(fd, 0xC018AA3F, struct.pack("QQQ", 0xAA, 0, 0))  # UFFDIO_API
    fcntl.ioctl(fd, 0xC020AA00, struct.pack("QQQQ", at, 4096, 1, 0))  # UFFDIO_REGISTER, of missing pages
    assert libc.madvise(ctypes.c_void_p(at), ctypes.c_size_t(4096), mmap.MADV_DONTNEED) == 0
    time.sleep(LONG)


def forked_lock(path, numel):
    """A DataLoader's worker that was forked while a thread held a lock."""
    import torch.utils.data

    held = threading.Lock()

    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, i):
            with held:
                return i

    held.acquire()
    threading.Timer(LONG, held.release)
    next(iter(torch.utils.data.DataLoader(Data(), num_workers=1)))


def barrier(path, numel):
    import torch.distributed as dist

    dist.barrier()


def broadcast(path, numel):
    """The root of a broadcast goes on, so it ends; the others are in a sum."""
    import torch
    import torch.distributed as dist

    dist.broadcast(torch.zeros(numel), src=dist.get_rank())
    time.sleep(LONG)


def ring(path, numel):
    """Each rank receives from the one before it, and none sends first."""
    import torch
    import torch.distributed as dist

    rank, size = dist.get_rank(), dist.get_world_size()
    dist.recv(torch.zeros(numel), (rank - 1) % size)
    dist.send(torch.zeros(numel), (rank + 1) % size)


def gather(path, numel):
    import torch
    import torch.distributed as dist

    mine = torch.zeros(numel)
    dist.all_gather([torch.zeros(numel) for _ in range(dist.get_world_size())], mine)


def other_size(path, numel):
    import torch
    import torch.distributed as dist

    dist.all_reduce(torch.zeros(numel // 4))


def subset(path, numel):
    import torch.distributed as dist

    dist.new_group([0, 1])


def key(path, numel):
    """Waits for a key that no rank sets."""
    import torch.distributed.distributed_c10d as c10d

    c10d._get_default_store().get("weights-are-ready")


def chain(path, numel):
    """Each rank receives from the next one; the last one ends."""
    import torch
    import torch.distributed as dist

    me, n = dist.get_rank(), dist.get_world_size()
    if me == n - 1:
        time.sleep(2)
        os._exit(0)
    dist.recv(torch.zeros(numel), src=me + 1)
