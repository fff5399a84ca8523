"""The phases of mesh.py, with torch: collectives of gloo, or of NCCL on one GPU that all ranks share."""

import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.distributed.nn  # noqa: F401  or the end may abort, see examples/train.py

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--pause", type=float, default=0.05)
parser.add_argument("--wait", type=float, default=0)
parser.add_argument("--by")  # gloo and NCCL have their own ways
parser.add_argument("--out")
args = parser.parse_args()
rank = int(os.environ["RANK"])
backend = os.environ.get("TRUTH_BACKEND", "gloo")


def say(text):
    os.write(1, f"rank {rank} {text}\n".encode())


def add(numel):
    dist.all_reduce(torch.ones(numel, device="cuda" if backend == "nccl" else "cpu"))
    if backend == "nccl":
        torch.cuda.synchronize()


say("up")
time.sleep(args.wait)
dist.init_process_group(backend)
add(1 << 16)
say("met")
for step in range(args.steps):
    time.sleep(args.pause)
    add(1 << 10)
    say(f"step {step}")
dist.destroy_process_group()
say("done")
