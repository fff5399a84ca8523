import deepspeed
import torch
import torch.distributed as dist

# Else it compiles its sums in shared memory first, which takes a minute.
deepspeed.ops.__compatible_ops__ = {}
deepspeed.init_distributed("gloo")
one = torch.ones(1)
dist.all_reduce(one)
print(f"rank {dist.get_rank()} of {dist.get_world_size()} counts {int(one)}", flush=True)
dist.destroy_process_group()
