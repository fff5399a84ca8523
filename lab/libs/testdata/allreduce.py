"""One all-reduce over Gloo, with a short time limit. The ranks first wait for each
other at the store, because importing torch takes different times."""
import datetime
import os
import torch
import torch.distributed as dist

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), world, rank == 0,
                      timeout=datetime.timedelta(minutes=2))
dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=datetime.timedelta(seconds=3))
ranks = torch.tensor([rank + 1])
dist.all_reduce(ranks)
print("sum", ranks.item(), flush=True)
dist.destroy_process_group()
