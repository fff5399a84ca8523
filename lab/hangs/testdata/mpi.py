"""A rank of MPI without torch: it prints its phases as job.py does, and calls MPI_Init and MPI_Barrier."""

import ctypes
import os
import time

rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("PMI_RANK") or "0"


def say(phase):
    os.write(1, f"rank {rank} {phase}\n".encode())


say(f"pid {os.getpid()} started")
say("at gate")
while not os.path.exists(os.path.join(os.environ["GATE"], "before")):
    time.sleep(0.05)
say("init")
mpi = ctypes.CDLL("libmpi.so.40", ctypes.RTLD_GLOBAL)
mpi.MPI_Init(None, None)
say("joined")
mpi.MPI_Barrier(ctypes.byref(ctypes.c_char.in_dll(mpi, "ompi_mpi_comm_world")))
say("trained")
mpi.MPI_Finalize()
