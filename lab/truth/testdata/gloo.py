"""The phases of mesh.py, with torch and gloo."""

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
parser.add_argument("--by")  # gloo has its own way
parser.add_argument("--out")
args = parser.parse_args()
rank = int(os.environ["RANK"])


def say(text):
    os.write(1, f"rank {rank} {text}\n".encode())


say("up")
time.sleep(args.wait)
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1 << 16))
say("met")
for step in range(args.steps):
    time.sleep(args.pause)
    dist.all_reduce(torch.ones(1 << 10))
    say(f"step {step}")
dist.destroy_process_group()
say("done")
