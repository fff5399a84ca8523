import torch
from accelerate import Accelerator

a = Accelerator(cpu=True)
n = int(a.reduce(torch.ones(1)))
print(f"rank {a.process_index} of {a.num_processes} counts {n}", flush=True)
a.end_training()
