"""More that a rank does for long before it goes on. Each ends when stop() is true."""

import asyncio
import concurrent.futures
import fcntl
import hashlib
import json
import mmap
import multiprocessing
import os
import pickle
import random
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
import zlib

from slow import slow_hash, until


def slow_clone(path, stop):
    """Clones a repository of many files."""
    with tempfile.TemporaryDirectory() as d:
        source, copy = os.path.join(d, "source"), os.path.join(d, "copy")
        subprocess.run(["git", "init", "-q", source], check=True)
        for i in range(300):
            with open(os.path.join(source, f"file{i}"), "wb") as f:
                f.write(os.urandom(10000))
        who = ["-c", "user.name=lab", "-c", "user.email=lab@lab.invalid"]
        subprocess.run(["git", "-C", source, "add", "."], check=True)
        subprocess.run(["git", "-C", source, *who, "commit", "-q", "-m", "data"], check=True)

        def step(i):
            subprocess.run(["git", "clone", "-q", "--no-local", source, copy], check=True)
            shutil.rmtree(copy)

        until(stop, step)


def slow_install(path, stop):
    """pip, again and again."""
    with tempfile.TemporaryDirectory() as d:
        wheel = os.path.join(d, "tiny-1.0-py3-none-any.whl")
        info = "tiny-1.0.dist-info/"
        with zipfile.ZipFile(wheel, "w") as z:
            z.writestr("tiny/__init__.py", "")
            z.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
            z.writestr(info + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            z.writestr(info + "RECORD", "")
        line = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index",
                "--root-user-action=ignore", "--upgrade", "--target", os.path.join(d, "site"), wheel]
        until(stop, lambda i: subprocess.run(line, check=True))


def slow_tokenizer(path, stop):
    """Joins the most frequent pair of tokens, in Python."""
    tokens = [random.randrange(64) for _ in range(50000)]

    def step(i):
        counts = {}
        for pair in zip(tokens, tokens[1:]):
            counts[pair] = counts.get(pair, 0) + 1
        max(counts, key=counts.get)

    until(stop, step)


def slow_loader(path, stop):
    """A DataLoader with two workers, which read slowly."""
    import torch.utils.data

    class Data(torch.utils.data.IterableDataset):
        def __iter__(self):
            while True:
                time.sleep(0.3)
                yield hashlib.sha256(os.urandom(1 << 22)).digest()[0]

    batches = iter(torch.utils.data.DataLoader(Data(), num_workers=2))
    until(stop, lambda i: next(batches))


def slow_pickle(path, stop):
    big = {f"layer{i}": [float(k) for k in range(1000)] for i in range(200)}
    until(stop, lambda i: pickle.loads(pickle.dumps(big)))


def slow_torch_compile(path, stop):
    """The first compile of a model."""
    import torch

    def step(i):
        torch._dynamo.reset()
        width = 8 + i

        def model(x):
            for k in range(20):
                x = torch.relu(x * k + width)
            return x.sum()

        torch.compile(model)(torch.ones(width))

    until(stop, step)


def slow_extension(path, stop):
    """torch's way to build an extension."""
    import torch.utils.cpp_extension as cpp

    with tempfile.TemporaryDirectory() as d:

        def step(i):
            build = os.path.join(d, str(i))
            os.mkdir(build)
            cpp.load_inline(f"sum{i}", f"int sum{i}(int a) {{ return a + {i}; }}", functions=[f"sum{i}"],
                            build_directory=build)

        until(stop, step)


def slow_flock(path, stop):
    """One rank works with a lock of a file held; the other waits for the lock."""
    with open(path, "a") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        slow_hash(path, stop)


def slow_timer(path, stop):
    """A lock that another thread lets go after a while."""
    held = threading.Lock()

    def step(i):
        held.acquire()
        threading.Timer(8, held.release).start()
        held.acquire()
        held.release()

    until(stop, step)


def slow_numpy(path, stop):
    import numpy

    a = numpy.random.rand(700, 700)
    until(stop, lambda i: a @ a)


def slow_poll(path, stop):
    """Looks for a file that another job writes."""
    until(stop, lambda i: (os.path.exists("/nowhere/ready"), time.sleep(1)))


def slow_retry(path, stop):
    """Tries to reach a service that has not started."""

    def step(i):
        try:
            socket.create_connection(("127.0.0.1", 9), timeout=1).close()
        except OSError:
            time.sleep(1)

    until(stop, step)


def _square(n):
    return hashlib.pbkdf2_hmac("sha256", b"x", b"y", 100000 + n)


def slow_pool(path, stop):
    with multiprocessing.Pool(2) as pool:
        until(stop, lambda i: pool.map(_square, range(8)))


def slow_lines(path, stop):
    """Copies data by a program that says how far it is."""
    shell = 'while [ ! -e "$GATE/stop" ]; do head -c 300000 /dev/urandom | wc -c; sleep 0.5; done'
    with subprocess.Popen(["sh", "-c", shell], stdout=subprocess.PIPE) as p:
        for _ in p.stdout:
            pass


def slow_sqlite(path, stop):
    with tempfile.TemporaryDirectory() as d:
        db = sqlite3.connect(os.path.join(d, "index"))
        db.execute("create table sample (id integer primary key, text)")

        def step(i):
            db.executemany("insert into sample (text) values (?)", [(str(random.random()),) for _ in range(200)])
            db.commit()

        until(stop, step)


def slow_map(path, stop):
    """Touches the pages of a file of weights."""
    with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:

        def step(i):
            m.madvise(mmap.MADV_DONTNEED)
            for at in range(0, len(m), 4096):
                m[at]
            time.sleep(0.2)

        until(stop, step)


def slow_json(path, stop):
    text = json.dumps([{"text": "x" * 50, "id": i} for i in range(5000)])
    until(stop, lambda i: json.loads(text))


def slow_zlib(path, stop):
    image = zlib.compress(os.urandom(1 << 20))
    until(stop, lambda i: zlib.decompress(image))


def slow_executor(path, stop):
    """The main thread waits for the futures of a pool of threads."""
    data = os.urandom(1 << 24)
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        until(stop, lambda i: list(pool.map(lambda n: hashlib.sha256(data).digest(), range(20))))


def slow_fsync(path, stop):
    """Writes and waits for the disk."""
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(path)) as f:

        def step(i):
            f.write(os.urandom(1 << 16))
            f.flush()
            os.fsync(f.fileno())
            time.sleep(0.1)

        until(stop, step)


def slow_tar(path, stop):
    until(stop, lambda i: subprocess.run(["tar", "cf", "/dev/null", "/usr/share/perl"], stderr=subprocess.DEVNULL))


def slow_copy(path, stop):
    """Copies a file to the local disk, in the kernel."""
    with tempfile.TemporaryDirectory() as d:
        until(stop, lambda i: shutil.copyfile(path, os.path.join(d, "copy")))


def slow_asyncio(path, stop):
    """Many small requests of one loop of events."""

    async def fetch():
        await asyncio.sleep(0.2)
        return hashlib.sha256(os.urandom(1 << 16)).digest()

    async def main():
        while not stop():
            await asyncio.gather(*(fetch() for _ in range(20)))

    asyncio.run(main())


def slow_graph(path, stop):
    """A breadth-first walk over a large dict."""
    links = {i: [random.randrange(100000) for _ in range(3)] for i in range(100000)}

    def step(i):
        seen, todo = {0}, [0]
        for n in todo:
            for k in links[n]:
                if k not in seen:
                    seen.add(k)
                    todo.append(k)

    until(stop, step)


def slow_peer(path, stop):
    """Waits on a socket for a helper process that works, and answers at the end."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        slow_hash(path, stop)
        theirs.send(b"x")
        os._exit(0)
    theirs.close()
    ours.recv(1)
    os.waitpid(pid, 0)
