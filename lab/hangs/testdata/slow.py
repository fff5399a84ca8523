"""What a rank does for long before it goes on. Each ends when stop() is true."""

import gzip
import hashlib
import importlib
import multiprocessing
import os
import queue
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time


def until(stop, step):
    i = 0
    while not stop():
        step(i)
        i += 1


def slow_sleep(path, stop):
    until(stop, lambda i: time.sleep(5))


def slow_hash(path, stop):
    data = os.urandom(1 << 20)
    until(stop, lambda i: hashlib.sha256(data).digest())


def slow_read(path, stop):
    """A checkpoint from a slow disk."""
    with open(path, "rb", buffering=0) as f:

        def step(i):
            if not f.read(1 << 20):
                f.seek(0)
            time.sleep(0.1)

        until(stop, step)


def slow_mount(path, stop):
    """Small reads from a network file system, each of which takes a round trip."""
    names = sorted(os.listdir(path))

    def step(i):
        with open(os.path.join(path, names[i % len(names)]), "rb") as f:
            f.read()

    until(stop, step)


def slow_compile(path, stop):
    """A compiler that is started again and again, as for an extension."""
    with tempfile.TemporaryDirectory() as d:
        source = os.path.join(d, "kernel.c")
        with open(source, "w") as f:
            for i in range(3000):
                f.write(f"int f{i}(int x) {{ return x * {i} + x / {i + 1}; }}\n")
        until(stop, lambda i: subprocess.run(["gcc", "-O2", "-c", source, "-o", source + ".o"], check=True))


def slow_build(path, stop):
    """Short children, one after the other, that use little time."""
    until(stop, lambda i: subprocess.run(["sleep", "0.3"], check=True))


def slow_import(path, stop):
    """A cold import of many modules."""
    with tempfile.TemporaryDirectory() as d:
        sys.path.insert(0, d)

        def step(i):
            with open(os.path.join(d, f"module{i}.py"), "w") as f:
                f.writelines(f"def f{k}(x):\n    return [x, {k}, {i}]\n" for k in range(300))
            importlib.invalidate_caches()
            importlib.import_module(f"module{i}")

        until(stop, step)


def slow_scan(path, stop):
    """Counts the files of a data set."""
    until(stop, lambda i: sum(len(files) for _, _, files in os.walk(path)))


def slow_download(path, stop):
    """Receives some bytes a second."""
    host, port = path.split(":")
    with socket.create_connection((host, int(port))) as s:
        until(stop, lambda i: s.recv(1 << 16))


def slow_unpack(path, stop):
    text = gzip.compress(os.urandom(1 << 20))
    until(stop, lambda i: subprocess.run(["gzip", "-dc"], input=text, stdout=subprocess.DEVNULL, check=True))


def slow_memory(path, stop):
    """Builds an index: memory grows, page by page."""
    index = []

    def step(i):
        if len(index) < 400:
            index.append(bytearray(os.urandom(1 << 18)))
        time.sleep(0.1)

    until(stop, step)


def slow_shuffle(path, stop):
    order = list(range(100000))
    until(stop, lambda i: random.shuffle(order))


def slow_thread(path, stop):
    """The main thread waits for a thread that works."""
    t = threading.Thread(target=slow_hash, args=(path, stop), name="tokenizer")
    t.start()
    t.join()


def slow_worker(path, stop):
    """The main process waits for a child that works, in one place all the time."""
    here = os.path.dirname(os.path.abspath(__file__))
    code = "import os, slow; slow.slow_hash('', lambda: os.path.exists(os.path.join(os.environ['GATE'], 'stop')))"
    subprocess.run([sys.executable, "-c", code], cwd=here, check=True)


def slow_survivor(path, stop):
    """One of two processes was killed, and the rank waits in a queue for the other one, which works."""
    context = multiprocessing.get_context("fork")
    q = context.Queue()
    context.Process(target=lambda: os.kill(os.getpid(), signal.SIGKILL), daemon=True).start()
    context.Process(target=lambda: (slow_hash(path, stop), q.put(0)), daemon=True).start()
    q.get()


def slow_queue(path, stop):
    """Waits in a queue for a thread that reads slowly."""
    q = queue.Queue()

    def fill():
        until(stop, lambda i: (time.sleep(1), q.put(hashlib.sha256(os.urandom(1 << 22)).digest())))
        q.put(None)

    threading.Thread(target=fill, name="loader").start()
    while q.get():
        pass


def slow_baton(path, stop):
    """One rank compiles; the others of its node look for its file, as torch's extensions do."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        slow_hash(path, stop)
    except FileExistsError:
        until(stop, lambda i: time.sleep(0.1))


def slow_write(path, stop):
    """Saves a checkpoint."""
    with tempfile.NamedTemporaryFile() as f:

        def step(i):
            f.seek(0)
            f.write(os.urandom(1 << 20))
            f.flush()
            time.sleep(0.05)

        until(stop, step)
