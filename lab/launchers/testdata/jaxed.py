import jax
import jax.numpy as jnp
from jax.experimental.multihost_utils import process_allgather

jax.distributed.initialize()
n = int(process_allgather(jnp.ones(1)).sum())
print(f"rank {jax.process_index()} of {jax.process_count()} counts {n}", flush=True)
