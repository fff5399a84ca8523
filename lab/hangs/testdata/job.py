"""A job whose odd ranks do something else than the others, before or after init_process_group.

Each rank prints one line for each phase: "rank 3 pid 4711 started", "rank 3 odd",
"rank 3 init", "rank 3 joined", "rank 3 step 1", "rank 3 trained". Ranks wait for files
in the folder GATE: "before" and "after" (with --gate), and "stop", at which the
endless training and all that is slow comes to its end.
"""

import argparse
import datetime
import os
import socket
import sys
import threading
import time

import chores
import slow
import stuck

rank = int(os.environ["RANK"])


def say(phase):
    # One write, so that lines of several ranks do not mix.
    os.write(1, f"{os.environ.get('JOB', '')}rank {rank} {phase}\n".encode())


def options():
    p = argparse.ArgumentParser()
    p.add_argument("--odd", default="", help="ranks: 2,3")
    p.add_argument("--before", default="", help="what odd ranks do before init_process_group")
    p.add_argument("--after", default="", help="what they do after the first step")
    p.add_argument("--first", action="store_true", help="do that before the first step")
    p.add_argument("--gate", default="", help="before, after: wait for this file then")
    p.add_argument("--path", default="", help="a file or an address, for what needs one")
    p.add_argument("--numel", type=int, default=1000)
    p.add_argument("--work", type=float, default=0, help="seconds of each step that all ranks compute")
    p.add_argument("--lag", type=float, default=0, help="seconds of each step that odd ranks sleep")
    p.add_argument("--keep", action="store_true", help="report an error and do not end")
    p.add_argument("--linger", action="store_true", help="odd ranks sleep after the last step")
    p.add_argument("--timeout", type=float, default=1800, help="seconds of the group's timeout")
    p.add_argument("--peers", default="", help="start torch's debug server, and dump the flight recorder here")
    p.add_argument("--backend", default="gloo", help="or nccl")
    p.add_argument("--one-step", action="store_true", help="end after one step")
    return p.parse_args()


opt = options()
odd = str(rank) in opt.odd.split(",")


def stop():
    return os.path.exists(os.path.join(os.environ["GATE"], "stop"))


def gate(name):
    if opt.gate == name:
        say("at gate")
        while not os.path.exists(os.path.join(os.environ["GATE"], name)):
            time.sleep(0.05)


def do(name):
    say("odd")
    if name.startswith("slow_"):
        work = getattr(slow, name, None) or getattr(chores, name)
        work(opt.path, stop)
    else:
        getattr(stuck, name)(opt.path, opt.numel)


def train(dist, torch):
    """Steps of a sum over all ranks, until one of them has seen the file stop."""
    step = 0
    while True:
        x = torch.zeros(opt.numel)
        x[0] = float(stop())
        until = time.monotonic() + opt.work
        while time.monotonic() < until:
            torch.ones(1000).sum()
        dist.all_reduce(x)
        step += 1
        if step == 1 or step % 100 == 0:
            say(f"step {step}")
        if x[0] > 0 or opt.one_step:
            return
        if step == 1:
            gate("after")
            if odd and opt.after and not opt.first:
                do(opt.after)
        time.sleep(opt.lag if odd and opt.lag else 0.02)


def dump(folder):
    """Writes the flight recorder when the test asks for it, as NCCL's watchdog would."""
    import torch._C._distributed_c10d as c10d

    while not os.path.exists(os.path.join(os.environ["GATE"], "dump")):
        time.sleep(0.2)
    with open(os.path.join(folder, f"_dump_{rank}"), "wb") as f:
        f.write(c10d._dump_fr_trace())


def on_gpu(torch):
    """All ranks share the first GPU. NCCL allows that to ranks of different hosts, which use the network."""
    os.environ["NCCL_HOSTID"] = f"{socket.gethostname()}-{rank}-{os.environ['MASTER_PORT']}"
    torch.cuda.set_device(0)
    torch.set_default_device("cuda")


def main():
    say(f"pid {os.getpid()} started")
    gate("before")
    if odd and opt.before:
        do(opt.before)
    import torch
    import torch.distributed as dist

    if opt.peers:
        threading.Thread(target=dump, args=(opt.peers,), daemon=True).start()
        from torch.distributed.debug import start_debug_server

        start_debug_server()
    if opt.backend == "nccl":
        on_gpu(torch)
    say("init")
    dist.init_process_group(opt.backend, timeout=datetime.timedelta(seconds=opt.timeout))
    say("joined")
    if odd and opt.after and opt.first:
        do(opt.after)
    train(dist, torch)
    say("trained")
    dist.destroy_process_group()
    if odd and opt.linger:
        say("lingers")
        time.sleep(3600)


try:
    main()
except Exception as e:
    say(f"failed: {type(e).__name__}")
    if not opt.keep:
        raise
    sys.excepthook(*sys.exc_info())
    threading.Thread(target=time.sleep, args=(3600,), name="uploader").start()
