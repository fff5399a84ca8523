"""A short training that ends well, and says what good jobs say."""

import logging
import os
import sys

import torch
import torch.distributed as dist

logging.basicConfig(level=logging.INFO)
if "OMPI_COMM_WORLD_RANK" in os.environ:
    os.environ.update(RANK=os.environ["OMPI_COMM_WORLD_RANK"], WORLD_SIZE=os.environ["OMPI_COMM_WORLD_SIZE"])
dist.init_process_group("gloo")
log = logging.getLogger("train")
log.info("rank %d of %d, 0 errors so far", dist.get_rank(), dist.get_world_size())
model = torch.nn.Linear(8, 1)
wrapped = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(wrapped.parameters(), 0.01)
for step in range(5):
    loss = wrapped(torch.randn(16, 8)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    log.info("step %d loss %.4f error_rate %.3f", step, loss, loss / 9)
try:
    open("/nowhere/checkpoint")
except OSError as e:
    log.warning("no checkpoint, starting anew: %s", e)
if "sub" in sys.argv:
    dist.barrier(dist.new_group([0, 1]))
dist.barrier()
if "leave" not in sys.argv:
    dist.destroy_process_group()
