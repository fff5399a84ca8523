"""The smallest job that a fault can hit: a few all-reduces of 4 MiB over all
ranks."""

import argparse

import torch
import torch.distributed as dist
import torch.distributed.nn  # or the end may abort, see examples/train.py

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=5)
args = parser.parse_args()
dist.init_process_group("gloo")
for _ in range(args.steps):
    t = torch.ones(1 << 20)
    dist.all_reduce(t)
print(f"rank {dist.get_rank()}: {int(t[0])}", flush=True)
dist.destroy_process_group()
