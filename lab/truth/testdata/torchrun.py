"""A stand-in for torchrun with a static rendezvous: it starts the script's ranks and waits."""

import os
import subprocess
import sys

options, argv = {"nnodes": "1", "nproc_per_node": "1", "node_rank": "0", "master_addr": "127.0.0.1",
                 "master_port": "29500"}, sys.argv[1:]
while argv and argv[0].startswith("--"):
    name, joined, value = argv.pop(0)[2:].partition("=")
    options[name.replace("-", "_")] = value if joined else argv.pop(0)
if options.get("rdzv_endpoint"):
    options["master_addr"], _, options["master_port"] = options["rdzv_endpoint"].rpartition(":")
nnodes, per, node = int(options["nnodes"]), int(options["nproc_per_node"]), int(options["node_rank"])
ranks = []
for local in range(per):
    env = dict(os.environ, RANK=str(node * per + local), WORLD_SIZE=str(nnodes * per), LOCAL_RANK=str(local),
               LOCAL_WORLD_SIZE=str(per), GROUP_RANK=str(node), MASTER_ADDR=options["master_addr"],
               MASTER_PORT=options["master_port"], TORCHELASTIC_RUN_ID="none")
    ranks.append(subprocess.Popen([sys.executable, *argv], env=env))
sys.exit(1 if any([r.wait() for r in ranks]) else 0)
