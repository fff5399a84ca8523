import horovod.torch as hvd
import torch

hvd.init()
n = hvd.allreduce(torch.ones(1), op=hvd.Sum, name="n")
print(f"rank {hvd.rank()} of {hvd.size()} counts {int(n)}", flush=True)
