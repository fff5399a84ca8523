"""Steps of a job that only counts: each rank appends "RUN STEP TIME BEGAN" to a file of its own. RUN is the time at
which rank 0 of this start began, so that a start after a loss is another run. BEGAN is when its torchrun was
started, before the import of torch. host-RANK has the name of the rank's host."""
import os
import socket
import sys
import time

import torch
import torch.distributed as dist



def began():
    """Returns when the parent process was started."""
    with open(f"/proc/{os.getppid()}/stat") as f:
        ticks = int(f.read().rpartition(")")[2].split()[19])
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")


out = sys.argv[1]
os.makedirs(out, exist_ok=True)
dist.init_process_group("gloo")
rank = dist.get_rank()
with open(os.path.join(out, f"host-{rank}"), "w") as f:
    f.write(socket.gethostname())
run = torch.tensor([time.time()], dtype=torch.float64)
dist.broadcast(run, 0)
total = torch.ones(1)
command = began()
with open(os.path.join(out, f"rank-{rank}"), "a", buffering=1) as f:
    for step in range(int(sys.argv[2]) if len(sys.argv) > 2 else 100000):
        dist.all_reduce(total)
        f.write(f"{run.item():.3f} {step} {time.time():.3f} {command:.3f}\n")
        time.sleep(0.2)
