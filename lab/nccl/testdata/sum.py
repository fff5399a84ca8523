"""Sums over all ranks by NCCL, on the first GPU that this node shows for each process."""

import datetime
import os

import torch
import torch.distributed as dist

torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
dist.init_process_group("nccl", timeout=datetime.timedelta(minutes=10))
for numel in (1000, 4_000_000):
    x = torch.ones(numel, device="cuda")
    for _ in range(3):
        dist.all_reduce(x)
    torch.cuda.synchronize()
os.write(1, f"rank {dist.get_rank()} summed\n".encode())
dist.destroy_process_group()
