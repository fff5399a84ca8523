"""A job of gloo ranks that goes wrong in one of several ways, and writes its flight-recorder dumps.

train.py SCENE RANK WORLD DIR: each rank writes nccl_trace_rank_RANK and trace_RANK.json in DIR.
"""
import datetime
import os
import sys
import threading
import time

import torch
import torch.distributed as dist

SCENE, RANK, WORLD, DIR = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]


def step(n=8, dtype=torch.float32):
    dist.all_reduce(torch.ones(n, dtype=dtype))


def healthy():
    for _ in range(4):
        step()
    dist.barrier()


def behind():
    for _ in range(3 if RANK == WORLD - 1 else 4):
        step()
    if RANK == WORLD - 1:
        time.sleep(600)


def operation():
    step()
    if RANK == 1:
        dist.broadcast(torch.ones(8), 0)
    else:
        step()


def sizes():
    step()
    step(16 if RANK == 0 else 8)
    step()


def dtypes():
    step()
    step(8, torch.float64 if RANK == 2 else torch.float32)
    step()


def groups():
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    step()
    mine = pairs[RANK // 2]
    if RANK == 3:
        time.sleep(600)
    dist.all_reduce(torch.ones(4), group=mine)
    step()


def crossed():
    other = dist.new_group(list(range(WORLD)))
    step()
    for g in ([None, other] if RANK == 0 else [other, None]):
        dist.all_reduce(torch.ones(4), group=g)


def kinds():
    t, all_t = torch.ones(8), torch.ones(8 * WORLD)
    many = [torch.ones(8) for _ in range(WORLD)]
    dist.broadcast(t, 0)
    dist.reduce(t, 1)
    dist.all_gather(many, t)
    dist.all_gather_into_tensor(all_t, t)
    dist.gather(t, many if RANK == 0 else None, 0)
    dist.scatter(t, many if RANK == 0 else None, 0)
    dist.all_to_all_single(all_t.clone(), all_t)
    uneven = [RANK + 1] * WORLD
    out = [r + 1 for r in range(WORLD)]
    dist.all_to_all_single(torch.ones(sum(out)), torch.ones(sum(uneven)), out, uneven)
    dist.all_gather_object([None] * WORLD, {"rank": RANK})
    dist.reduce_scatter_tensor(t, all_t)
    dist.send(t, (RANK + 1) % WORLD) if RANK % 2 == 0 else dist.recv(t, RANK - 1)
    dist.barrier()


def dump():
    from torch._C import _distributed_c10d as c10d
    name = os.path.join(DIR, f"nccl_trace_rank_{RANK}")
    with open(name, "wb") as f:
        f.write(c10d._dump_fr_trace())
    text = c10d._dump_fr_trace_json()
    with open(os.path.join(DIR, f"trace_{RANK}.json"), "wb") as f:
        f.write(text if isinstance(text, bytes) else text.encode())


def meet(what):
    """Wait until all ranks are here, or have crashed."""
    open(os.path.join(DIR, f"{what}-{RANK}"), "w").close()
    end = time.time() + 10
    while time.time() < end and sum(n.startswith(what) for n in os.listdir(DIR)) < WORLD:
        time.sleep(0.1)


def main():
    store = dist.FileStore(os.path.join(DIR, "store"), WORLD)
    dist.init_process_group("gloo", store=store, rank=RANK, world_size=WORLD,
                            timeout=datetime.timedelta(seconds=600))
    scene = threading.Thread(target=globals()[SCENE], daemon=True)
    scene.start()
    scene.join(3)
    meet("ready")
    dump()
    meet("dumped")
    os._exit(0)


main()
