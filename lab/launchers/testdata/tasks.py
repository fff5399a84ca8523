import time

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

ray.init()
end = time.monotonic() + 60
while len(ray.nodes()) < 2 and time.monotonic() < end:  # with ray start nothing waits for the other node
    time.sleep(0.2)
nodes = [n["NodeID"] for n in ray.nodes() if n["Alive"]]


@ray.remote(num_cpus=0)
def here():
    return ray.get_runtime_context().get_node_id()


ran = set(ray.get([here.options(scheduling_strategy=On(n, soft=False)).remote() for n in nodes]))
for rank in range(len(ran)):
    print(f"rank {rank} of {len(nodes)} counts {len(ran)}", flush=True)
