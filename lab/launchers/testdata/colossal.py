import colossalai
import torch
import torch.distributed as dist

colossalai.launch_from_torch(verbose=False)
one = torch.ones(1)
dist.all_reduce(one)
print(f"rank {dist.get_rank()} of {dist.get_world_size()} counts {int(one)}", flush=True)
dist.destroy_process_group()
