# Two agents of NIXL find each other in an etcd, and each writes its rank into the other's memory.
import os
import sys
import time

import numpy
from nixl_cu12 import nixl_agent, nixl_agent_config

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
agent = nixl_agent(f"agent{rank}", nixl_agent_config(backends=["UCX"]))
mine, others = numpy.full(1, rank, "int64"), numpy.full(world, -1, "int64")
registered = [agent.register_memory([(a.ctypes.data, a.nbytes, 0, "")], "DRAM") for a in (mine, others)]
agent.send_local_metadata()


def wait(what, done):
    end = time.monotonic() + 60
    while not done():
        if time.monotonic() > end:
            sys.exit(f"rank {rank} waits for {what}")
        time.sleep(0.05)


def known(name):
    agent.fetch_remote_metadata(name)
    time.sleep(0.2)
    return agent.check_remote_metadata(name)


places = {}
others[rank] = rank
for peer in range(world):
    if peer != rank:
        wait(f"agent{peer}", lambda: known(f"agent{peer}"))
        agent.send_notif(f"agent{peer}", str(others.ctypes.data).encode())


def heard():
    for name, texts in agent.get_new_notifs().items():
        places[name] = int(texts[0])
    return len(places) == world - 1


wait("addresses", heard)
for name, address in places.items():
    here = agent.get_xfer_descs([(mine.ctypes.data, 8, 0)], "DRAM")
    there = agent.get_xfer_descs([(address + 8 * rank, 8, 0)], "DRAM")
    write = agent.initialize_xfer("WRITE", here, there, name)
    state = agent.transfer(write)
    wait("its write", lambda: state == "DONE" or agent.check_xfer_state(write) == "DONE")
    write.release()
wait("the others' writes", lambda: (others >= 0).all())
print(f"rank {rank} of {world} counts {len(set(others))}", flush=True)
time.sleep(2)  # the other one may still write
os._exit(0)  # with an etcd, NIXL 1.5.1 crashes when it ends
