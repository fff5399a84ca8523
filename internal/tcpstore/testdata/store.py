"""Opens a store of torch with the keys of a job: store.py KIND EXTRA; prints its port, ends with its stdin."""
import base64, datetime, pickle, sys
import torch.distributed as dist
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import _NodeDesc, _RendezvousState

kind, extra = sys.argv[1], int(sys.argv[2])
backend = {} if kind == "old" else {"use_libuv": kind == "libuv"}
store = dist.TCPStore("127.0.0.1", 0, 1, True, datetime.timedelta(seconds=60), wait_for_workers=False, **backend)
state = _RendezvousState()
beat = datetime.datetime(2026, 3, 4, 5, 6, 7, 89)
for i, (host, pid) in enumerate([("h1", 70000), ("h0", 8300)]):
    node = _NodeDesc(host, pid, 0)
    state.participants[node] = 1 - i
    state.last_heartbeats[node] = beat if kind == "old" else beat.replace(tzinfo=datetime.timezone.utc)
state.wait_list.add(_NodeDesc("h2", 1, 0))
state.round, state.complete = 3, True
store.set("torch.rendezvous.j1", base64.b64encode(pickle.dumps(state)))
store.set("torch.rendezvous.j1.3/MASTER_ADDR", "h0")
store.set("torch.rendezvous.j1.3/MASTER_PORT", "40123")
slash = "" if kind == "old" else "/"
for prefix in ["none", "torch.rendezvous.j1.3"]:
    for n in range(2):
        store.set(f"{prefix}/torchelastic/role_info{slash}{n}",
                  '{"role": "default", "rank": %d, "local_world_size": 2}' % n)
        if kind != "old":
            store.set(f"{prefix}/torchelastic/assigned_ranks/{n}", f"[{2 * n}, 4, {2 * n}, 4]")
if kind == "old":
    store.set("none/torchelastic/agent/terminal_state0", "END")
else:
    store.add("none/torchelastic/agent/terminal_state/num_members", 1)
group = "1" if kind == "old" else "0"
store.add(f"default_pg/store_based_barrier_key:{group}", 2)
store.set(f"default_pg/store_based_barrier_key:{group}:last_worker", "1")
ident = b"\1\2\3\4\5\6\7\x08\x02\0\x9c\x3f\x0a\x58\0\1".ljust(128, b"\0")
store.set("default_pg/0/0" if kind == "old" else "default_pg/0//cuda//0", ident)
store.add("counter", 3)  # of the program: of no interest
store.set("none/torchelastic/role_info/9" if kind != "old" else "x", "no JSON")
for i in range(extra):
    store.set(f"default_pg/0//7//cpu//0/{i}", "x" * 186)
print(store.port, flush=True)
sys.stdin.read()
