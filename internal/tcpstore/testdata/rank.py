"""One of two ranks of a Gloo job: rank.py KIND RANK PORT, or under torchrun. It prints its host's name, and ends
with its stdin."""
import datetime, os, socket, sys
import torch.distributed as dist

if len(sys.argv) > 1:
    kind, rank, port = sys.argv[1:]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, RANK=rank, WORLD_SIZE="2",
                      USE_LIBUV="1" if kind == "libuv" else "0")
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
dist.new_group([0, 1])
dist.barrier()
print(socket.gethostname(), flush=True)
sys.stdin.read()
os._exit(0)
