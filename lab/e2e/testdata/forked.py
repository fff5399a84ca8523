"""torchrun without its import.

serve SOCKET: imports torch once, and forks for each torchrun that calls.
As torchrun: passes its line, environment and standard files on to the SOCKET
that FORKED names, and ends as what runs there.

LATE is how many seconds that one waits before it begins, as an import does.
"""
import json
import os
import signal
import socket
import sys


def call(path, argv):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)
        line = json.dumps({"argv": argv, "env": dict(os.environ), "cwd": os.getcwd()}).encode()
        socket.send_fds(s, [len(line).to_bytes(4, "big") + line], [0, 1, 2])
        for sig in signal.SIGTERM, signal.SIGINT:
            signal.signal(sig, lambda *_: s.shutdown(socket.SHUT_WR))
        status = s.recv(1)
        sys.exit(status[0] if status else 1)


def worker():
    import time
    import torch
    import torch.distributed as dist
    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(1))
    print("first", time.time(), flush=True)
    dist.barrier()


def torchrun(argv):
    import time
    from torch.distributed import run
    time.sleep(float(os.environ.get("LATE", "0")))
    print("begins", time.time(), flush=True)
    args = run.parse_args(["--start-method", "fork"] + argv)
    if args.master_port is None:
        args.master_port = 29500
    config, _, _ = run.config_from_args(args)
    run.elastic_launch(config=config, entrypoint=worker)()


def answer(conn):
    """Runs in a process of its own, in a session of its own, for one caller."""
    os.setsid()
    head, fds, _, _ = socket.recv_fds(conn, 4, 3)
    size, text = int.from_bytes(head, "big"), b""
    while len(text) < size:
        text += conn.recv(size - len(text))
    line = json.loads(text)
    child = os.fork()
    if child == 0:
        conn.close()
        for at, fd in enumerate(fds):
            os.dup2(fd, at)
            os.close(fd)
        os.environ.clear()
        os.environ.update(line["env"])
        os.chdir(line["cwd"])
        try:
            torchrun(line["argv"])
            os._exit(0)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    ended = False
    conn.settimeout(0.02)
    while not ended:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            conn.sendall(bytes([os.waitstatus_to_exitcode(status) & 255]))
            ended = True
            continue
        try:
            if not conn.recv(1):
                os.killpg(0, signal.SIGKILL)
        except TimeoutError:
            pass
    os._exit(0)


def serve(path):
    import torch  # noqa: F401
    import torch.distributed.run  # noqa: F401
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # reaps
    s = socket.socket(socket.AF_UNIX)
    s.bind(path)
    s.listen(64)
    print("ready", flush=True)
    while True:
        conn, _ = s.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            s.close()
            answer(conn)
        conn.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(sys.argv[2])
    else:
        call(os.environ["FORKED"], sys.argv[1:])
