"""Steps of a job that only counts: each rank appends "RUN STEP TIME" to a file of its own. RUN is the time at which
rank 0 of this start began, so that a start after a loss is another run."""
import os
import sys
import time

import torch
import torch.distributed as dist

out = sys.argv[1]
os.makedirs(out, exist_ok=True)
dist.init_process_group("gloo")
rank = dist.get_rank()
run = torch.tensor([time.time()], dtype=torch.float64)
dist.broadcast(run, 0)
total = torch.ones(1)
with open(os.path.join(out, f"rank-{rank}"), "a", buffering=1) as f:
    for step in range(int(sys.argv[2]) if len(sys.argv) > 2 else 100000):
        dist.all_reduce(total)
        f.write(f"{run.item():.3f} {step} {time.time():.3f}\n")
        time.sleep(0.2)
