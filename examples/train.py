"""A small training job on several nodes: PyTorch DistributedDataParallel.

Ten clouds of points, one small network, a loss that falls. Runs with
torch 1.13 and later, on CPUs (gloo) or, where every process of a node can
have a GPU of its own, on GPUs (nccl).

    launch --store host0 torchrun --nnodes 2 --nproc-per-node 2 train.py
    launch --store host0 --nnodes 2 python train.py
"""

import argparse
import datetime
import os
import sys

import torch
import torch.distributed as dist

# DistributedDataParallel of torch 2.15 loads this module, whose default arguments
# hold the process group if it exists: destroy_process_group then leaves gloo's
# threads running, and one of them can abort the process as it ends. Load it early.
import torch.distributed.nn
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def say(text):
    """Prints a line in one write, because the ranks of a node share one stdout."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def batch(centres, size, generator):
    """Returns points around randomly chosen centres, and the centre of each."""
    label = torch.randint(len(centres), (size,), generator=generator)
    noise = torch.randn(size, centres.shape[1], generator=generator)
    return centres[label] + 0.7 * noise, label


def train(steps, device):
    torch.manual_seed(0)  # the same centres and first weights everywhere
    centres = torch.randn(10, 16)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)
    model = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    data = torch.Generator().manual_seed(1 + dist.get_rank())  # each rank its own data

    first = last = None
    for step in range(1, steps + 1):
        points, label = batch(centres, 64, data)
        loss = nn.functional.cross_entropy(model(points.to(device)), label.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        mean = loss.detach().clone()
        dist.all_reduce(mean)
        last = mean.item() / dist.get_world_size()
        first = last if first is None else first
        if dist.get_rank() == 0 and (step == 1 or step % 20 == 0 or step == steps):
            say(f"step {step:3d} of {steps}  loss {last:.3f}")
    return first, last


def main():
    parser = argparse.ArgumentParser(description="a small training job on several nodes")
    parser.add_argument("--steps", type=int, default=100)
    args = parser.parse_args()

    torch.set_num_threads(1)  # many processes may share this machine's cores
    local = int(os.environ.get("LOCAL_RANK", 0))
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", 1))  # of this node
    gpus = torch.cuda.is_available() and torch.cuda.device_count() >= processes
    if gpus:
        torch.cuda.set_device(local)
    dist.init_process_group("nccl" if gpus else "gloo", timeout=datetime.timedelta(minutes=2))

    rank, world = dist.get_rank(), dist.get_world_size()
    # The node rank is GROUP_RANK in torchrun and NODE_RANK in launch.
    node = os.environ.get("GROUP_RANK", os.environ.get("NODE_RANK", rank))
    say(f"rank {rank} of {world} on node {node}")

    first, last = train(args.steps, torch.device("cuda", local) if gpus else torch.device("cpu"))
    if rank == 0:
        say(f"done: loss {first:.2f} -> {last:.2f}, {world} ranks, torch {torch.__version__}")
    dist.destroy_process_group()
    if args.steps > 1 and not last < first:
        sys.exit(f"rank {rank}: the loss did not fall: {first:.2f} -> {last:.2f}")


if __name__ == "__main__":
    main()
