import torch
from lightning.fabric import Fabric

fabric = Fabric()  # fabric run has the rest
n = int(fabric.all_reduce(torch.ones(1), reduce_op="sum"))
print(f"rank {fabric.global_rank} of {fabric.world_size} counts {n}", flush=True)
torch.distributed.destroy_process_group()  # else torch may abort while the process ends
